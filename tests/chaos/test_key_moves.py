"""Key groups that move on real processes: by hand, with a source's worker killed, and by the loop around a hot key."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest
from tests.queries import PATIENT, all_open, completed, ended, ending, pids, until

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query
from tailrace.errors import ConfigError
from tailrace.program.errors import MoveError

pytestmark = pytest.mark.chaos
QUICK = {"progress_s": 0.2, "key_groups": 64, **PATIENT}
KEYS = 32
COUNT = 8000


def follow(key, value, state):
    """Each value with the number that its key's state has come to."""
    number = (state.get() or 0) + 1
    state.set(number)
    return [(key, value, number)]


def keyed():
    flow, out = tr.Topology("keys"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(2500, count=COUNT), name="numbers")
    numbers.key_by(lambda value: value % KEYS).process(follow, tasks=3, name="follow").sink(out, tasks=1, name="end")
    return flow, out


def test_keys_move_to_and_fro_and_nothing_shows():
    flow, out = keyed()
    with ending(Query(flow, testing.ProcessHost(3), tr.Policy(chaining="off"), tr.Settings(**QUICK)).start()) as query:
        until(lambda: completed(query) > 0, "progress", query)
        for task in (0, 1, 2, 0):
            (told,) = query.move_keys("follow", range(KEYS // 2), task=task, groups=[0, 63])
            assert told["state"] == "done"
            places = query.key_groups_of("follow")
            assert places[0] == places[63] == task
        with pytest.raises(MoveError, match="tasks 0 to 2; found 9"):
            query.move_keys("follow", [1], task=9)
        with pytest.raises(ConfigError, match="takes a list of keys"):
            query.move_keys("follow", "abc", task=1)
        assert "key group(s) of follow -> task 0" in query.explain(text=True)
        ended(query)
        assert query.lastProgress["replays"] == 0
    assert Counter(value for _, value, _ in out.values) == Counter(range(COUNT))
    assert all(number == value // KEYS + 1 for _, value, number in out.values)


def test_a_source_killed_while_keys_move_doubles_nothing():
    """Its successor reads again what the task that has the keys now, or the one that had them, has seen before."""
    flow, out = keyed()
    with ending(Query(flow, testing.ProcessHost(2), tr.Policy(chaining="off"), tr.Settings(**QUICK)).start()) as query:
        until(lambda: completed(query) > 0, "progress", query)
        for operator, task, worker in [("numbers", 0, 0), *[("follow", task, 1) for task in range(3)], ("end", 0, 1)]:
            query.move(operator, task, worker)
        query.move_keys("follow", range(0, KEYS, 3), task=1)
        os.kill(pids(query)[0], signal.SIGKILL)
        until(lambda: query._brain.restarts == 1 and all_open(query), "a successor", query)
        query.move_keys("follow", range(0, KEYS, 2), task=2)
        ended(query)
    assert Counter(value for _, value, _ in out.values) == Counter(range(COUNT))
    assert all(number == value // KEYS + 1 for _, value, number in out.values)


def hot_or_not(number):
    """Three in five are of one key."""
    return 0 if number % 5 < 3 else 1 + number % 31


def slowly(key, number, state):
    """The number, how many its key has had, and the process that its task is in."""
    time.sleep(0.004)
    count = (state.get() or 0) + 1
    state.set(count)
    return [(key, number, count, os.getpid())]


def run_hot(rebalance, goal):
    """A key with 60 % of the traffic, which alone is 1.2 of what a task can do; gives what arrived, in order."""
    flow, out = tr.Topology("hot"), tr.sinks.collect(limit=10**6)
    keyed = flow.source(tr.sources.rate(500), name="numbers").key_by(hot_or_not)
    keyed.process(slowly, tasks=3, name="work", blocking=True).sink(out, tasks=1, name="end")
    policy = tr.Policy(rebalance=rebalance)
    with ending(Query(flow, testing.ProcessHost(3), policy, tr.Settings(**QUICK)).start()) as query:
        goal(query, out)
        query.stop()
    counts_of = {}
    for key, _, count, _ in out.values:
        counts_of.setdefault(key, []).append(count)
    assert all(each == list(range(1, len(each) + 1)) for each in counts_of.values())
    (read_up_to,) = query._brain._marks.values()
    assert Counter(row[1] for row in out.values) == Counter(range(read_up_to))
    return out.values


def overtaking(rows):
    """The values of other keys that began in the hot key's task and arrived before an older value of the hot key."""
    rows = list(rows)
    first = {}
    for key, _, _, pid in rows:
        first.setdefault(key, pid)
    hot_to_come, found = float("inf"), []
    for key, number, _, _ in reversed(rows):
        if key == 0:
            hot_to_come = min(hot_to_come, number)
        elif first[key] == first.get(0) and number > hot_to_come:
            found.append(number)
    return found


def test_a_key_with_most_of_the_traffic_does_not_hold_up_the_others():
    """The loop lets the other keys of its task leave, and they overtake it; without the loop each waits its turn."""

    def until_others_overtake(query, out):
        until(lambda: "by hot_keys: key group" in query.explain(text=True), "keys move", query)
        until(lambda: len(overtaking(out.values)) > 100, "the other keys overtake the hot one", query)

    def until_there_is_a_queue(query, out):
        until(lambda: (query.lastProgress or {}).get("pending", 0) > 200, "a queue", query)
        seen = len(out.values)
        until(lambda: len(out.values) > seen + 500, "values", query)

    run_hot("spread", until_others_overtake)
    assert overtaking(run_hot("off", until_there_is_a_queue)) == []
