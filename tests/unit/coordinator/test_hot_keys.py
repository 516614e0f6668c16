"""Which key groups leave an overloaded task: worked by hand, and properties on any loads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordinator.migration.hot_keys import THETA, StageLoad, overloaded, relieve
from tailrace.coordinator.migration.key_loads import KeyLoads
from tailrace.reports import KeyGroupReport, WorkerReport


def counted(*groups):
    return WorkerReport(1, groups=tuple(KeyGroupReport(*row) for row in groups))


def stage_of(groups, task_of, tasks=4, besides=None):
    """Tasks with threads of their own: each is a server."""
    return StageLoad(groups, task_of, list(range(tasks)), besides or {})


def test_what_shares_a_task_with_a_hot_key_leaves_for_the_least_used_tasks():
    """One key has 60 %, the rest is even: 70 % at its task, 10 % at each other one."""
    groups = {0: 0.6, 1: 0.05, 2: 0.05, 3: 0.1, 4: 0.1, 5: 0.1}
    stage = stage_of(groups, [0, 0, 0, 1, 2, 3])
    assert overloaded(stage) == [0]
    moves = relieve(stage)
    assert moves == {1: 1, 2: 2}
    assert stage.used(moves) == pytest.approx({0: 0.6, 1: 0.15, 2: 0.15, 3: 0.1})


def test_groups_that_were_not_seen_yet_leave_a_hot_key_too():
    stage = stage_of({0: 0.6, 4: 0.1}, [0, 0, 0, 0, 1, 2, 3])
    moves = relieve(stage)
    assert set(moves) == {1, 2, 3}
    assert sorted(moves.values()) == [2, 2, 3]


def test_a_hot_key_that_is_alone_stays():
    assert relieve(stage_of({0: 0.6, 1: 0.1, 2: 0.1, 3: 0.1}, [0, 1, 2, 3])) == {}


def test_many_middling_keys_are_evened_out_until_their_task_is_at_the_mean():
    groups = dict.fromkeys(range(8), 0.1)
    stage = stage_of(groups, [0, 0, 0, 0, 0, 1, 2, 3])
    moves = relieve(stage)
    assert max(stage.used(moves).values()) == pytest.approx(0.2)
    assert len(moves) == 3


def test_within_the_threshold_nothing_moves():
    assert relieve(stage_of({0: 0.25, 1: 0.27, 2: 0.25, 3: 0.25}, [0, 1, 2, 3])) == {}


def test_what_else_a_worker_does_counts():
    """Two tasks in one loop with a busy source, two in another that is idle."""
    groups = {0: 0.2, 1: 0.2, 2: 0.1, 3: 0.1}
    stage = StageLoad(groups, [0, 1, 2, 3], ["a", "a", "b", "b"], {"a": 0.3})
    moves = relieve(stage)
    assert set(moves) <= {0, 1}
    assert set(moves.values()) <= {2, 3}
    assert max(stage.used(moves).values()) < stage.used()["a"]


@given(
    st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(0, 4)), min_size=1, max_size=60),
    st.dictionaries(st.integers(0, 4), st.floats(0.0, 1.0)),
)
def test_moves_never_make_the_most_used_server_worse_and_no_task_gives_and_takes(rows, besides):
    groups = {group: load for group, (load, _) in enumerate(rows)}
    stage = stage_of(groups, [task for _, task in rows], 5, besides)
    moves = relieve(stage)
    used, then = stage.used(), stage.used(moves)
    assert max(then.values()) <= max(used.values()) + 1e-9
    givers = {stage.task_of[group] for group in moves}
    assert not givers & set(moves.values())
    mean = sum(used.values()) / len(used)
    assert all(used[giver] > (1 + THETA) * mean for giver in givers)


class Plan:
    """Two edges into stage 3."""

    class Edge:
        def __init__(self, number):
            self.id, self.dst_stage = number, 3

    edges = (Edge(0), Edge(1))


def test_shares_add_up_over_edges_and_the_past_counts_for_less():
    loads = KeyLoads(Plan)
    loads.add(counted([0, 7, 30], [1, 7, 30], [1, 2, 40]))
    assert loads.shares(3) == pytest.approx({7: 0.6, 2: 0.4})
    for _ in range(20):
        loads.age()
        loads.add(counted([0, 2, 10]))
    assert loads.shares(3)[2] > 0.98
    assert loads.shares(1) == {}
