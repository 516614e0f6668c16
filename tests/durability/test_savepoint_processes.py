"""Queries on real processes make savepoints and go on from them, as their users ask for it."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from tests.queries import PATIENT, completed, ended, ending, pids, until

import tailrace as tr
from tailrace import testing
from tailrace.checkpoint.errors import CheckpointNeededError, SavepointExistsError, SavepointFailedError
from tailrace.coordinator.errors import DrainTimeoutError
from tailrace.coordinator.query import Query

pytestmark = pytest.mark.chaos
COUNT, KEYS = 6000, 97


def flow_of(tasks, *, name="saved"):
    flow, out = tr.Topology(name), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(3000, count=COUNT, partitions=2), tasks=2)
    counts = numbers.map(lambda v: v % KEYS, tasks=2).key_by(lambda v: v).count(tasks=tasks, name="counts")
    counts.sink(out, tasks=1)
    return flow, out


def start(flow, path, *, workers=2, restore=None, **settings):
    every = None if path is None else tr.Checkpoint(path, every_s=0.2)
    settings = tr.Settings(progress_s=0.1, **PATIENT, **settings)
    return Query(flow, testing.ProcessHost(workers), tr.Policy(), settings, every, restore).start()


WANTED = [(key, number + 1) for key in range(KEYS) for number in range(len(range(key, COUNT, KEYS)))]


def test_a_stopped_query_goes_on_with_other_tasks_and_a_running_one_with_other_workers(tmp_path):
    flow, out = flow_of(2)
    stopped, running = tmp_path / "stopped", tmp_path / "running"
    with ending(start(flow, tmp_path / "first")) as query:
        until(lambda: completed(query) > 400, "progress", query)
        told = query.savepoint(running)
        assert (told.drained, told.path) == (False, str(running))
        killing = threading.Thread(target=lambda: os.kill(pids(query)[1], signal.SIGKILL))
        killing.start()
        saved = query.stop(savepoint=stopped)
        killing.join()
        assert not query.isActive
        assert query.exception() is None
    assert saved.drained
    assert str(saved).startswith("drained savepoint of epoch")
    values = list(out.values)
    assert 400 < len(values) < COUNT
    flow, out = flow_of(4)
    with ending(start(flow, tmp_path / "second", workers=3, restore=tr.Savepoint(stopped))) as query:
        until(lambda: completed(query) > 400, "progress", query)
        query.stop(now=True)
    assert sorted(values + list(out.values))[: len(values)] != sorted(values)  # it has counted on
    flow, out = flow_of(4)
    with ending(start(flow, tmp_path / "second", restore=tr.Savepoint(stopped))) as query:  # the same script again
        assert query._brain.checkpoints.attempt == 3
        ended(query)
    last = dict(sorted(out.values))
    assert last == dict(WANTED)
    flow, out = flow_of(2)
    with ending(start(flow, tmp_path / "third", workers=3, restore=tr.Savepoint(running))) as query:
        ended(query)
    assert dict(sorted(out.values)) == dict(WANTED)


def slowly(value):
    gate = threading.Event()
    gate.wait(value["seconds"])
    return value


def test_a_savepoint_that_cannot_be_made_is_refused_and_the_query_goes_on(tmp_path):
    full = tmp_path / "full"
    (full / "parts").mkdir(parents=True)
    (full / "parts" / "something").write_bytes(b"of another")
    flow, out = tr.Topology("refused"), tr.sinks.collect()
    numbers = flow.source(tr.sources.items([{"seconds": 3.0}] + [{"seconds": 0.0}] * 40))
    numbers.map(slowly, blocking=True).key_by(lambda v: v["seconds"]).count(tasks=2).sink(out)
    with ending(start(flow, tmp_path / "checkpoint", drain_timeout_s=0.2)) as query:
        with pytest.raises(SavepointExistsError):
            query.savepoint(full)
        until(lambda: (query.lastProgress or {}).get("pending"), "the one that takes long", query)
        with pytest.raises(DrainTimeoutError, match="goes on"):
            query.stop(savepoint=tmp_path / "late")
        ended(query)
        with pytest.raises(SavepointFailedError, match="has ended"):
            query.savepoint(tmp_path / "ended")
    assert max(out.values) == (3.0, 1)
    assert len(out.values) == 41


def test_a_query_without_a_checkpoint_makes_no_savepoint(tmp_path):
    flow, _ = flow_of(2)
    with ending(start(flow, None)) as query:
        with pytest.raises(CheckpointNeededError):
            query.savepoint(tmp_path / "none")
        query.stop(now=True)
