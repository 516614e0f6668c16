"""Moves of tasks, workers that join and leave, and the loop that relieves a slow one, on real processes."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter

import pytest
from tests.queries import PATIENT, all_open, completed, ended, ending, pids, until

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query
from tailrace.program.errors import MoveError
from tailrace.testing.chaos import Knobs

pytestmark = pytest.mark.chaos
QUICK = {"progress_s": 0.2, **PATIENT}
KEYS = 32
COUNT = 10_000


def follow(key, value, state):
    """Each value with the number that its key's state has come to."""
    number = (state.get() or 0) + 1
    state.set(number)
    return [(key, value, number)]


def keyed(per_s=3000):
    flow, out = tr.Topology("moves"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(per_s, count=COUNT), name="numbers")
    numbers.key_by(lambda value: value % KEYS).process(follow, tasks=4, name="follow").sink(out, tasks=2, name="end")
    return flow, out


def assert_exact(rows):
    assert Counter(value for _, value, _ in rows) == Counter(range(COUNT))
    assert all(number == value // KEYS + 1 for _, value, number in rows)


def test_tasks_of_every_kind_move_and_nothing_shows():
    flow, out = keyed()
    rng = random.Random(1)
    with ending(Query(flow, testing.ProcessHost(3), tr.Policy(chaining="off"), tr.Settings(**QUICK)).start()) as query:
        until(lambda: completed(query) > 0, "progress", query)
        for operator, tasks in [("follow", 4), ("end", 2), ("numbers", 1), ("follow", 4), ("follow", 4)]:
            query.move(operator, rng.randrange(tasks), rng.randrange(3))
        with pytest.raises(MoveError, match="Worker 9 is not open"):
            query.move("follow", 0, 9)
        ended(query)
        assert query._brain.operations.moved >= 3
        assert query.lastProgress["replays"] == 0
    assert_exact(out.values)


def test_two_workers_become_four_and_two_again_and_nothing_is_lost():
    flow, out = keyed()
    with ending(Query(flow, testing.ProcessHost(2), tr.Policy(chaining="off"), tr.Settings(**QUICK)).start()) as query:
        until(lambda: completed(query) > 0, "progress", query)
        query.scale(4)
        placed = {slot for row in query._brain.placement for slot in row}
        assert placed == {0, 1, 2, 3}
        between = completed(query)
        until(lambda: completed(query) > between + 500, "progress", query)
        query.scale(2)
        assert sorted(query._brain.members) == [0, 1]
        ended(query)
        assert query.lastProgress["workers"]["restarts"] == 0
    assert_exact(out.values)


def test_a_worker_killed_while_tasks_move_to_it_loses_no_tuple():
    flow, out = tr.Topology("killed"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(3000, count=COUNT), name="numbers")
    numbers.shuffle().map(lambda value: value, tasks=3, name="pass").shuffle().sink(out, tasks=1, name="end")
    with ending(Query(flow, testing.ProcessHost(4), tr.Policy(chaining="off"), tr.Settings(**QUICK)).start()) as query:
        until(lambda: completed(query) > 0, "progress", query)
        safe = {query._brain.placement[0][0], query._brain.placement[2][0]}
        victim = next(slot for slot in range(4) if slot not in safe)
        os.kill(pids(query)[victim], signal.SIGSTOP)  # so that the plan is under way when it dies
        moves = [(1, task, victim) for task in range(3) if query._brain.placement[1][task] != victim]
        query._loop.ask(lambda brain, _: brain.operations.move_tasks(moves, "a test asks"))
        until(lambda: query._brain.operations.told, "the plan begins", query)
        os.kill(pids(query)[victim], signal.SIGKILL)
        until(lambda: query._brain.restarts == 1 and all_open(query), "a successor", query)
        (plan,) = query._brain.operations.told
        assert (plan.state, plan.reason) == ("undone", f"worker {victim} was lost")
        query.move("pass", 0, victim)
        ended(query)
    assert set(out.values) == set(range(COUNT))


def test_a_worker_that_becomes_slow_is_relieved_by_the_loop():
    with Knobs() as knobs:
        flow, out = tr.Topology("slow"), tr.sinks.collect(limit=10**6)
        numbers = flow.source(tr.sources.rate(400), name="numbers")
        mapped = numbers.shuffle().map(lambda v: knobs.wait(0.005) or v, tasks=4, name="work", blocking=True)
        mapped.shuffle().sink(out, tasks=1, name="end")
        policy = tr.Policy(chaining="off", rebalance="spread")
        with ending(Query(flow, testing.ProcessHost(4), policy, tr.Settings(**QUICK)).start()) as query:
            until(lambda: completed(query) > 200, "progress", query)
            victim = query._brain.placement[1][2]
            knobs.slow(victim, 4.0)
            until(lambda: victim not in query._brain.placement[1], "the slow worker is relieved", query)
            told = query.explain(text=True)
            assert "of the usual speed" in told
            query.stop()
        (read_up_to,) = query._brain._marks.values()
    assert Counter(out.values) == Counter(range(read_up_to))
