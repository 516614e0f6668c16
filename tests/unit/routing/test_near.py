"""Node-local shuffle: nearest first, nobody much over an even share, and incarnations that still meet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.routing.near import NearEdge, following, near_rows, near_shares

places = st.tuples(st.integers(0, 3), st.integers(0, 2))


def test_own_worker_first_then_the_own_node_then_everyone():
    targets = [(0, 0), (0, 1), (1, 0), (2, 0)]
    supply = {(0, 0): 1.0, (1, 1): 1.0, (2, 0): 1.0, (0, 2): 1.0}
    rows = near_shares(supply, targets, "node", 1.0)
    assert rows[0, 0] == (1.0, 0.0, 0.0, 0.0)  # a task in its own worker
    assert rows[1, 1] == (0.0, 0.0, 1.0, 0.0)  # none there, but one on its node
    assert rows[0, 2] == (0.0, 1.0, 0.0, 0.0)  # the one of its node that has room
    assert near_shares(supply, targets, "worker", 1.0)[1, 1] == pytest.approx((0.0, 0.5, 0.5, 0.0))


def test_what_would_be_over_the_bound_goes_to_those_who_have_less():
    # One place sends everything: its task may have 1.5 even shares of the four, the rest is split among the others.
    rows = near_shares({(0, 0): 8.0}, [(0, 0), (1, 0), (2, 0), (3, 0)], "node", 1.5)
    assert rows[0, 0] == pytest.approx((3 / 8, 5 / 24, 5 / 24, 5 / 24))


@given(
    st.dictionaries(places, st.floats(0.0, 100.0), min_size=1, max_size=12),
    st.lists(places, min_size=1, max_size=12),
    st.sampled_from(["worker", "node"]),
    st.floats(1.0, 3.0),
)
def test_everything_is_given_and_no_task_gets_more_than_the_bound(supply, targets, level, skew_max):
    rows = near_shares(supply, targets, level, skew_max)
    assert all(sum(row) == pytest.approx(1.0) for row in rows.values())
    got = [sum(rate * rows[origin][task] for origin, rate in supply.items()) for task in range(len(targets))]
    assert max(got) <= skew_max * sum(supply.values()) / len(targets) * (1 + 1e-6) + 1e-6


STAGE = [(0, 0), (0, 1), (1, 2), (1, 3)]


@pytest.mark.parametrize(
    ("first", "keeps"),
    [("free", True), ("local", False), ("detour", False), ("spread", False)],
)
def test_by_root_keeps_near_behind_what_cannot_leave_the_node(first, keeps):
    edges = [NearEdge(0, 0, 1, first), NearEdge(1, 1, 2, "root")]
    rows = near_rows([STAGE, STAGE, STAGE], edges, "node", 1.25)
    assert (1 in rows) == keeps
    if keeps:
        assert rows[1] == [tuple(float(at == task) for at in range(4)) for task in range(4)]


def test_all_workers_of_a_node_share_a_row_once_roots_may_have_left_their_worker():
    # The first hop finds no task in some workers, so whoever sends on by root must choose as its neighbours do.
    middle = [(0, 0), (0, 0), (1, 2), (1, 2)]
    rows = near_rows([STAGE, middle, STAGE], [NearEdge(0, 0, 1, "free"), NearEdge(1, 1, 2, "root")], "node", 1.25)
    assert rows[1] == [(0.5, 0.5, 0.0, 0.0)] * 2 + [(0.0, 0.0, 0.5, 0.5)] * 2
    worker_only = near_rows(
        [STAGE, middle, STAGE], [NearEdge(0, 0, 1, "free"), NearEdge(1, 1, 2, "root")], "worker", 1.25
    )
    assert 1 not in worker_only  # half of the roots went to another node


def test_tasks_that_share_a_queue_count_as_one_node():
    edges = [NearEdge(0, 0, 1, "free", pooled=True), NearEdge(1, 1, 2, "root")]
    rows = near_rows([STAGE] * 3, edges, "node", 1.25)
    assert rows[1] == [(0.5, 0.5, 0.0, 0.0)] * 2 + [(0.0, 0.0, 0.5, 0.5)] * 2


def test_a_stage_fed_from_two_sides_goes_by_the_farther_one():
    edges = [NearEdge(0, 0, 2, "free"), NearEdge(1, 1, 2, "spread"), NearEdge(2, 2, 3, "root")]
    assert set(near_rows([STAGE] * 4, edges, "node", 1.25)) == {0}


def test_one_task_needs_no_rows():
    assert near_rows([STAGE, [(0, 0)]], [NearEdge(0, 0, 1, "free")], "node", 1.25) == {}


def test_shares_follow_tasks_unless_incarnations_have_to_meet_behind_them():
    edges = [
        NearEdge(0, 0, 1, "free"),
        NearEdge(1, 1, 2, "spread"),
        NearEdge(2, 1, 3, "free"),
        NearEdge(3, 3, 4, "root"),
        NearEdge(4, 2, 5, "free"),
        NearEdge(5, 5, 6, "root"),  # behind a keyed edge it goes to anyone and keeps nothing near
    ]
    assert following(edges, {0, 2, 3, 4}) == {4}
    assert following(edges, {0, 2, 4}) == {0, 2, 4}
    assert following(edges, set()) == frozenset()
