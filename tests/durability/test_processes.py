"""Workers as plain processes that are killed: counts stay exact, and every update comes once."""

from __future__ import annotations

import os
import random
import signal

import pytest
from tests.queries import PATIENT, all_open, completed, ended, ending, pids, until

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query

from . import flows

pytestmark = pytest.mark.chaos
QUICK = {"progress_s": 0.1, **PATIENT}


def kill_one(query, slot):
    """Kill a worker, and wait until everyone goes on as of the last epoch."""
    execution = query._brain.checkpoints.execution
    os.kill(pids(query)[slot], signal.SIGKILL)
    until(lambda: query._brain.checkpoints.execution > execution and all_open(query), "a recovery", query)


def durable(query):
    return query._brain.checkpoints.durable


@pytest.mark.parametrize("transport", ["ring", "tcp"])
def test_counts_are_exact_when_workers_with_state_are_killed(tmp_path, transport):
    flow, out, count = tr.Topology("exact"), tr.sinks.collect(), 6000
    numbers = flow.source(tr.sources.rate(2000, count=count, partitions=2), tasks=2)
    numbers.map(lambda v: v % 97, tasks=2).key_by(lambda v: v).count(tasks=2).sink(out, tasks=2)
    settings = tr.Settings(transport=transport, **QUICK)
    every = tr.Checkpoint(tmp_path / "checkpoint", every_s=0.2)
    with ending(Query(flow, testing.ProcessHost(3), tr.Policy(), settings, every).start()) as query:
        for slot, after in enumerate((500, 1500, 3000)):
            until(lambda after=after: completed(query) > after, "progress", query)
            kill_one(query, slot)
        ended(query)
    wanted = [(key, number + 1) for key in range(97) for number in range(len(range(key, count, 97)))]
    assert sorted(out.values) == wanted
    assert durable(query).drained


def test_a_query_that_is_left_goes_on_with_its_state_under_another_driver(tmp_path):
    wanted = flows.final_counts(random.Random(5), 4000)
    every = tr.Checkpoint(tmp_path / "checkpoint", every_s=0.1)
    # The first driver is left in the midst of things; the second reads on from its last epoch.
    drawn = flows.final_counts(random.Random(5), 4000)
    slow = tr.Settings(max_pending=16, batch_max=2, **QUICK)
    with ending(Query(drawn.flow, testing.ProcessHost(2), tr.Policy(), slow, every).start()) as first:
        until(
            lambda: durable(first) is not None and any(row.mark for row in durable(first).partitions), "an epoch", first
        )
        first.stop(now=True)
    assert first._brain.checkpoints.durable.attempt == 1
    with ending(Query(wanted.flow, testing.ProcessHost(3), tr.Policy(), tr.Settings(**QUICK), every).start()) as second:
        ended(second)
    assert wanted.faults(wanted.out.values) == ""
    assert durable(second).attempt == 2


def test_a_standby_goes_on_without_a_load_and_gives_the_tasks_back(tmp_path):
    flow, out, count = tr.Topology("standby"), tr.sinks.collect(), 8000
    numbers = flow.source(tr.sources.rate(2000, count=count, partitions=2), tasks=2)
    numbers.map(lambda v: v % 97, tasks=2).key_by(lambda v: v).count(tasks=2, name="counts").sink(out, tasks=2)
    every = tr.Checkpoint(tmp_path / "checkpoint", every_s=0.2, standby=1)
    with ending(Query(flow, testing.ProcessHost(3), tr.Policy(), tr.Settings(**QUICK), every).start()) as query:
        recovery = query._brain.recovery
        for kills in (1, 2):
            until(lambda: all_followed(query), "standbys that hold the last epoch", query)
            lost = query.workers_of("counts")[0]
            os.kill(pids(query)[lost], signal.SIGKILL)
            until(lambda kills=kills: recovery.count == kills and recovery.told[-1].took_ms >= 0, "a recovery", query)
            until(lambda kills=kills: recovery.returns == kills, "the tasks' return", query)
            until(lambda lost=lost: query.workers_of("counts")[0] == lost and all_open(query), "its old place", query)
        losses = [each for each in recovery.told if "was lost" in each.why]
        assert all(each.restored["standby"] for each in losses)
        assert not any(each.restored["store"] for each in recovery.told)
        assert "stands by for worker" in query.explain(text=True)
        ended(query)
    wanted = [(key, number + 1) for key in range(97) for number in range(len(range(key, count, 97)))]
    assert sorted(out.values) == wanted
    assert query.lastProgress["recoveries"]["count"] == 2
    assert query.lastProgress["checkpoints"]["durable"] > 0


def all_followed(query):
    """Whether every standby holds its tasks as of the last epoch, and all tasks are where they belong."""
    standbys, last = query._brain.recovery.standbys, durable(query)
    reached = [standbys.reached.get(slot) for slot in standbys.of.values()]
    return last is not None and bool(reached) and {*reached} == {last.epoch} and not standbys.displaced
