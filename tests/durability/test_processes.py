"""Workers as plain processes that are killed: counts stay exact, and every update comes once."""

from __future__ import annotations

import json
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


def test_counts_are_exact_when_workers_go_on_from_merged_parts(tmp_path):
    flow, out, count = tr.Topology("merged"), tr.sinks.collect(), 6000
    numbers = flow.source(tr.sources.rate(2000, count=count, partitions=2), tasks=2)
    numbers.map(lambda v: v % 97, tasks=2).key_by(lambda v: v).count(tasks=2).sink(out, tasks=2)
    every = tr.Checkpoint(tmp_path / "checkpoint", every_s=0.02, standby=1, chain_max=4)
    with ending(Query(flow, testing.ProcessHost(2), tr.Policy(), tr.Settings(**QUICK), every).start()) as query:
        for slot in range(2):
            before = query._brain.checkpoints.chains.merges
            until(lambda before=before: query._brain.checkpoints.chains.merges > before, "a merge", query)
            kill_one(query, slot)
        ended(query)
    wanted = [(key, number + 1) for key in range(97) for number in range(len(range(key, count, 97)))]
    assert sorted(out.values) == wanted


def test_state_on_disk_is_as_exact_and_leaves_nothing_on_it(tmp_path):
    flow, out, count = tr.Topology("disk"), tr.sinks.collect(), 3000
    numbers = flow.source(tr.sources.rate(2000, count=count, partitions=2), tasks=2)
    numbers.map(lambda v: v % 97, tasks=2).key_by(lambda v: v).count(tasks=2).sink(out, tasks=2)
    folder = tmp_path / "state"
    settings = tr.Settings(state_backend="disk", state_cache_keys=5, state_folder=str(folder), **QUICK)
    every = tr.Checkpoint(tmp_path / "checkpoint", every_s=0.2)
    with ending(Query(flow, testing.ProcessHost(2), tr.Policy(), settings, every).start()) as query:
        for slot, after in enumerate((500, 1500)):
            until(lambda after=after: completed(query) > after, "progress", query)
            assert list(folder.iterdir())
            kill_one(query, slot)
        ended(query)
    wanted = [(key, number + 1) for key in range(97) for number in range(len(range(key, count, 97)))]
    assert sorted(out.values) == wanted
    until(lambda: not list(folder.iterdir()), "the folders of killed workers to be removed", query)


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


def published(folder):
    """The values in a folder, as readers see them that skip hidden names."""
    return sorted(tuple(json.loads(line)) for path in folder.glob("part-*") for line in path.read_text().splitlines())


def test_lines_are_published_once_when_workers_are_killed_and_the_driver_is_left(tmp_path):
    count, lines = 4000, tmp_path / "lines"
    every = tr.Checkpoint(tmp_path / "checkpoint", every_s=0.1)

    def start():
        flow = tr.Topology("published")
        numbers = flow.source(tr.sources.rate(2000, count=count, partitions=2), tasks=2)
        counts = numbers.map(lambda v: v % 97, tasks=2).key_by(lambda v: v).count(tasks=2)
        counts.shuffle().sink(tr.sinks.json_lines(lines), tasks=2)
        return Query(flow, testing.ProcessHost(2), tr.Policy(), tr.Settings(**QUICK), every).start()

    with ending(start()) as first:
        assert "json_lines: transactional" in first.explain()
        until(lambda: completed(first) > 500, "progress", first)
        kill_one(first, 0)
        until(lambda: published(lines), "lines", first)
        first.stop(now=True)
    early = {path: path.read_text() for path in lines.glob("part-*")}
    with ending(start()) as second:
        until(lambda: durable(second).attempt == 2 and durable(second).kind == "checkpoint", "an epoch", second)
        kill_one(second, 1)
        ended(second)
    wanted = [(key, number + 1) for key in range(97) for number in range(len(range(key, count, 97)))]
    assert published(lines) == wanted
    assert all(path.read_text() == text for path, text in early.items())
    assert not list(lines.glob("_*"))


def test_a_driver_that_goes_on_has_what_the_one_before_collected(tmp_path):
    every = tr.Checkpoint(tmp_path / "checkpoint", every_s=0.1)
    slow = tr.Settings(max_pending=16, batch_max=2, **QUICK)
    first_drawn, second_drawn = (flows.word_count(random.Random(7), 3000) for _ in range(2))
    with ending(Query(first_drawn.flow, testing.ProcessHost(2), tr.Policy(), slow, every).start()) as first:
        until(lambda: durable(first) is not None and durable(first).driver, "values in a checkpoint", first)
        first.stop(now=True)
    fast = tr.Settings(**QUICK)
    with ending(Query(second_drawn.flow, testing.ProcessHost(2), tr.Policy(), fast, every).start()) as second:
        ended(second)
    assert second_drawn.faults(second_drawn.out.values) == ""


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
