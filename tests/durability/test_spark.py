"""Workers and executors on Spark that are killed: counts stay exact."""

from __future__ import annotations

import os
import signal

import pytest
from tests import sparks
from tests.queries import PATIENT, all_open, completed, ended, ending, executor_of, pids, until

import tailrace as tr

pytestmark = [pytest.mark.chaos, pytest.mark.spark]


@pytest.mark.timeout(400)
def test_counts_are_exact_when_a_worker_and_an_executor_are_killed(tmp_path):
    flow, out, count = tr.Topology("durable"), tr.sinks.collect(), 20_000
    numbers = flow.source(tr.sources.rate(1500, count=count, partitions=2), tasks=2)
    numbers.map(lambda v: v % 97, tasks=2).key_by(lambda v: v).count(tasks=2, name="counts").sink(out, tasks=2)
    settings = tr.Settings(progress_s=0.2, **PATIENT)
    every = tr.Checkpoint(tmp_path / "checkpoint", every_s=0.3)
    with ending(tr.start(flow, sparks.session(), workers=4, settings=settings, checkpoint=every)) as query:
        until(lambda: completed(query) > 1000, "progress", query)
        os.kill(pids(query)[query.workers_of("counts")[0]], signal.SIGKILL)
        until(lambda: query._brain.restarts >= 1 and all_open(query), "a new worker", query)
        goal = completed(query) + 500
        until(lambda: completed(query) > goal, "progress", query)
        restarts = query._brain.restarts
        os.kill(executor_of(pids(query)[query.workers_of("counts")[1]]), signal.SIGKILL)
        until(lambda: query._brain.restarts > restarts and all_open(query), "workers elsewhere", query)
        ended(query)
    wanted = [(key, number + 1) for key in range(97) for number in range(len(range(key, count, 97)))]
    assert sorted(out.values) == wanted


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_standbys_on_another_executor_go_on_when_a_worker_and_an_executor_are_killed(tmp_path):
    flow, out, count = tr.Topology("standby"), tr.sinks.collect(), 40_000
    numbers = flow.source(tr.sources.rate(1500, count=count, partitions=2), tasks=2)
    numbers.map(lambda v: v % 97, tasks=2).key_by(lambda v: v).count(tasks=2, name="counts").sink(out, tasks=2)
    settings = tr.Settings(progress_s=0.2, **PATIENT)
    every = tr.Checkpoint(tmp_path / "checkpoint", every_s=0.3, standby=1)
    with ending(tr.start(flow, sparks.session(), workers=4, settings=settings, checkpoint=every)) as query:
        recovery = query._brain.recovery
        until(lambda: all_followed(query), "standbys that hold the last epoch", query)
        os.kill(pids(query)[query.workers_of("counts")[0]], signal.SIGKILL)
        until(lambda: recovery.count == 1 and all_open(query), "a recovery", query)
        until(lambda: all_followed(query), "the tasks' return", query)
        os.kill(executor_of(pids(query)[query.workers_of("counts")[1]]), signal.SIGKILL)
        until(lambda: recovery.count > 1 and all_open(query), "a recovery from an executor's loss", query)
        loss = recovery.told[0]
        assert loss.restored["standby"]
        assert not loss.restored["store"]
        ended(query)
    wanted = [(key, number + 1) for key in range(97) for number in range(len(range(key, count, 97)))]
    assert sorted(out.values) == wanted


def all_followed(query):
    """Whether every standby holds its tasks as of the last epoch, and all tasks are where they belong."""
    standbys, last = query._brain.recovery.standbys, query._brain.checkpoints.durable
    reached = [standbys.reached.get(slot) for slot in standbys.of.values()]
    return last is not None and bool(reached) and {*reached} == {last.epoch} and not standbys.displaced
