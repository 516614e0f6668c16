"""Queries whose checkpoints lie on real stores: workers and the driver are lost, and the counts are exact."""

from __future__ import annotations

import itertools
import os
import signal

import pytest
from tests import sparks
from tests.hdfs_cluster import hdfs_cluster
from tests.maven import UnavailableError
from tests.queries import PATIENT, all_open, completed, ended, ending, pids, until
from tests.s3_server import s3_server

import tailrace as tr
from tailrace import testing
from tailrace.checkpoint.reader import CheckpointReader
from tailrace.checkpoint.stores import open_store
from tailrace.coordinator.query import Query

KEYS = 97
_addresses = itertools.count()


def counted(count, rate=2000):
    """How often each key has come, told at the end: all that came before a driver was lost is in it."""
    flow, out = tr.Topology("counted"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(rate, count=count, partitions=2), tasks=2)
    by_key = numbers.map(lambda value: value % KEYS, tasks=2).key_by(lambda value: value)
    by_key.count(tasks=2, name="counts", emit="final").sink(out)
    return flow, out


def exact(out, count):
    return sorted(out.values) == [(key, len(range(key, count, KEYS))) for key in range(KEYS)]


def durable(query):
    return query._brain.checkpoints.durable


def epochs_go_on(query):
    """Wait for an epoch in which something was counted."""
    known = 0 if durable(query) is None else durable(query).epoch
    until(lambda: durable(query) is not None and durable(query).epoch > known + 1, "more epochs", query)


def kill_a_worker(query, slot):
    execution = query._brain.checkpoints.execution
    os.kill(pids(query)[slot], signal.SIGKILL)
    until(lambda: query._brain.checkpoints.execution > execution and all_open(query), "a recovery", query)


@pytest.fixture(params=["memory", "s3"])
def address(request):
    """A store that workers reach by way of the driver, and one that they reach themselves."""
    if request.param == "memory":
        yield f"memory://durability/{next(_addresses)}"
        return
    with s3_server() as server:
        yield server.uri("words")


@pytest.mark.chaos
def test_counts_are_exact_when_a_worker_and_the_driver_are_lost(address):
    count, every = 5000, tr.Checkpoint(address, every_s=0.2)
    settings = tr.Settings(progress_s=0.1, **PATIENT)
    with ending(Query(counted(count)[0], testing.ProcessHost(2), tr.Policy(), settings, every).start()) as first:
        until(lambda: completed(first) > 300, "progress", first)
        epochs_go_on(first)
        kill_a_worker(first, 1)
        epochs_go_on(first)
        first.stop(now=True)
    flow, out = counted(count)
    with ending(Query(flow, testing.ProcessHost(3), tr.Policy(), settings, every).start()) as second:
        assert durable(second).attempt == 2
        ended(second)
    assert exact(out, count)
    reader = CheckpointReader(open_store(address))
    newest = reader.entries()[0].manifest
    assert newest.drained
    assert sum(len(state) for state in reader.states(newest, "counts")) == KEYS


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.chaos
def test_counts_are_exact_on_hdfs_by_way_of_the_driver(tmp_path):
    count = 20_000
    try:
        with hdfs_cluster(tmp_path) as cluster:
            session = sparks.session()
            cluster.wait()
            every = tr.Checkpoint(f"{cluster.uri}/open/words", every_s=0.5)
            settings = tr.Settings(progress_s=0.2, **PATIENT)
            with ending(tr.start(counted(count)[0], session, workers=3, settings=settings, checkpoint=every)) as first:
                until(lambda: completed(first) > 1000, "progress", first)
                epochs_go_on(first)
                for slot in (0, 2):
                    kill_a_worker(first, slot)
                    epochs_go_on(first)
                first.stop(now=True)
            flow, out = counted(count)
            with ending(tr.start(flow, session, workers=3, settings=settings, checkpoint=every)) as second:
                assert durable(second).attempt == 2
                ended(second)
            assert exact(out, count)
    except UnavailableError as error:
        pytest.skip(str(error))
