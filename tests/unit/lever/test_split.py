"""Pieces cover the input exactly once, whatever the loads and units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.lever.observe import TaskEnd
from tailrace.lever.planner import Planner, SourceRequest
from tailrace.lever.plans import ExecutorNode, plan_of
from tailrace.lever.split import Piece, Unit, cut, pin, whole_numbers

units_lists = st.lists(st.builds(Unit, st.integers(0, 1000), st.booleans()), min_size=1, max_size=20)
loads_lists = st.lists(st.floats(0, 1e6), min_size=1, max_size=8)


def covered(units, pieces):
    """Every unit's ranges, put together, are the unit: no gap, no overlap, opaque ones whole."""
    found = {index: [] for index in range(len(units))}
    for piece in pieces:
        for unit, start, end in piece.ranges:
            found[unit].append((start, end))
    for index, ranges in found.items():
        at = 0
        for start, end in sorted(ranges):
            assert start == at
            at = end
        assert at == units[index].size
        if not units[index].cuttable:
            assert len(ranges) == 1


@given(units=units_lists, loads=loads_lists, cores=st.integers(1, 4), tasks_min=st.integers(0, 40))
def test_cut_covers_every_unit_once(units, loads, cores, tasks_min):
    nodes = [ExecutorNode(str(i), cores) for i in range(len(loads))]
    covered(units, cut(units, {str(i): load for i, load in enumerate(loads)}, nodes, tasks_min))


@given(units=units_lists, loads=loads_lists)
def test_pin_keeps_partitions_and_their_order(units, loads):
    pieces = pin(units, {str(i): load for i, load in enumerate(loads)})
    assert [piece.ranges for piece in pieces] == [((i, 0, unit.size),) for i, unit in enumerate(units)]


@given(loads=loads_lists, total=st.integers(0, 10**6))
def test_whole_numbers_sum_and_stay_near(loads, total):
    rounded = whole_numbers(loads, total)
    assert sum(rounded) == total
    assert min(rounded) >= 0
    if sum(loads) > 1e-6:
        assert all(abs(r - x * total / sum(loads)) < 1.001 for r, x in zip(rounded, loads, strict=True))


def test_cut_follows_the_loads():
    pieces = cut([Unit(60, True), Unit(40, True)], {"a": 3.0, "b": 1.0}, [ExecutorNode("a"), ExecutorNode("b")])
    assert pieces == [Piece("a", ((0, 0, 60), (1, 0, 15))), Piece("b", ((1, 15, 40),))]


def test_an_executor_with_cores_gets_a_piece_per_core():
    pieces = cut([Unit(90, True)], {"a": 2.0, "b": 1.0}, [ExecutorNode("a", 2), ExecutorNode("b")])
    assert [piece.executor for piece in pieces] == ["a", "a", "b"]


def test_waiting_tasks_are_left_where_they_are_asked_for():
    pieces = cut([Unit(400, True)], {"a": 3.0, "b": 1.0}, [ExecutorNode("a"), ExecutorNode("b")], tasks_min=3)
    assert [(piece.executor, end - start) for piece in pieces for _, start, end in piece.ranges] == [
        ("a", 150), ("a", 150), ("b", 50), ("b", 50),
    ]  # fmt: skip


def test_fewer_rows_than_executors_leaves_no_empty_piece():
    pieces = cut([Unit(1, True)], dict.fromkeys("abcd", 1.0), [ExecutorNode(e) for e in "abcd"])
    assert pieces == [Piece("a", ((0, 0, 1),))]


def request(batch, *, ended=(), units=((400, True),), fixed="", executors=("0", "1", "2", "3")):
    return SourceRequest("q", batch, fixed, [Unit(*unit) for unit in units], [(e, 1) for e in executors], list(ended))


def ends(batch, pieces, rate):
    """Task ends as a cluster with these rates would give them."""
    sizes = {piece.executor: sum(end - start for _, start, end in piece.ranges) for piece in pieces}
    return [
        TaskEnd(batch, batch, 0, e, 0, round(size / rate[e]), size, True, False, "PROCESS_LOCAL")
        for e, size in sizes.items()
    ]


@pytest.mark.parametrize("name", ["proportional", "damped"])
def test_the_planner_learns_from_batch_to_batch(name):
    planner = Planner(plan_of(name))
    rate = {"0": 1.0, "1": 1.0, "2": 1.0, "3": 0.25}
    ended = []
    for batch in range(4):
        pieces = planner.decide(request(batch, ended=ended, units=((40000, True),)))
        ended = ends(batch, pieces, rate)
    planner.learn("q", ended)
    last = planner.history("q")[-1]
    share = {row.executor: row.share for row in last.executors}
    assert share["3"] == pytest.approx(1 / 13, rel=0.05)
    assert all(row.actual_ms == pytest.approx(row.predicted_ms, rel=0.1) for row in last.executors)


def test_the_planner_forgets_dead_executors_and_takes_in_new_ones():
    planner = Planner(plan_of("damped"))
    first = planner.decide(request(0))
    planner.decide(request(1, ended=ends(0, first, dict.fromkeys("0123", 1.0))))
    pieces = planner.decide(request(2, executors=("2", "3", "9")))
    assert {piece.executor for piece in pieces} == {"2", "3", "9"}
    assert set(planner.memory("q").capacity) == {"2", "3"}


def test_late_task_ends_of_a_learned_batch_are_left_out():
    planner = Planner(plan_of("damped"))
    first = planner.decide(request(0))
    every = ends(0, first, dict.fromkeys("0123", 1.0))
    planner.decide(request(1, ended=every[:3]))
    before = planner.memory("q")
    planner.decide(request(2, ended=every[3:]))
    assert planner.memory("q").last == before.last


def test_nothing_to_split_gives_no_pieces():
    planner = Planner(plan_of("damped"))
    assert planner.decide(request(0, units=((0, True),))) == []
    assert planner.decide(request(0, executors=())) == []


def test_two_sources_of_one_batch_are_planned_alike_and_shown_together():
    planner = Planner(plan_of("damped"))
    planner.decide(request(0))
    planner.decide(request(0, units=((100, True), (100, True))))
    (status,) = planner.history("q")
    assert [row.share for row in status.executors] == [0.25] * 4
