"""State follows the plan's shares, seldom and never for nothing."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import examples

from tailrace.lever.observe import TaskEnd
from tailrace.lever.planner import Planner, SourceRequest, StateRequest
from tailrace.lever.plans import ExecutorNode, plan_of
from tailrace.lever.split import Unit
from tailrace.lever.state_locations import GAIN_MIN, MOVED_MAX, PartitionLayout, StateBook, speeds_of

FOUR = [ExecutorNode(name) for name in "abcd"]
LEVEL = dict.fromkeys("abcd", 1.0)
SLOW_D = LEVEL | {"d": 0.25}


def ended(homes, took_ms, speeds=LEVEL, batch=0):
    """One task per partition; an executor of half the speed takes twice as long."""
    return [
        TaskEnd(batch, 1, 0, home, 0, int(took_ms / speeds[home]), 0, True, False, "PROCESS_LOCAL", 0, partition)
        for partition, home in enumerate(homes)
    ]


def end_ms(homes, weights_ms, speeds):
    carried = dict.fromkeys(speeds, 0.0)
    for home, weight_ms in zip(homes, weights_ms, strict=True):
        carried[home] += weight_ms
    return max(value / speeds[executor] for executor, value in carried.items())


def test_state_stays_where_it_is_while_all_are_level():
    book = StateBook()
    homes = ["a", "b", "c", "d"]
    for batch in range(5):
        book.learn(ended(homes, 100 + 7 * batch), LEVEL)
        assert book.settle(homes, FOUR, LEVEL) == homes


def test_state_leaves_a_slow_executor_once_two_batches_asked_for_it():
    book, homes = StateBook(), ["a", "b", "c", "d"]
    book.learn(ended(homes, 100, SLOW_D), SLOW_D)
    assert book.settle(homes, FOUR, SLOW_D) == homes
    moved = book.settle(homes, FOUR, SLOW_D)
    assert moved[:3] == homes[:3]
    assert moved[3] in {"a", "b", "c"}
    assert book.settle(moved, FOUR, SLOW_D) == moved


def test_one_bad_batch_moves_nothing():
    book, homes = StateBook(), ["a", "b", "c", "d"]
    for _ in range(3):
        book.learn(ended(homes, 100), LEVEL)
    for speeds in (SLOW_D, LEVEL, SLOW_D, LEVEL):
        assert book.settle(homes, FOUR, speeds) == homes


def test_state_comes_back_when_the_executor_has_recovered():
    book, homes = StateBook(), ["a", "b", "c", "a"]
    book.learn(ended(homes, 100), LEVEL)
    assert book.settle(homes, FOUR, LEVEL) == homes
    assert sorted(book.settle(homes, FOUR, LEVEL)) == ["a", "b", "c", "d"]


def test_nothing_moves_where_the_gain_is_small():
    """Half the speed: two partitions on a quick executor take as long as one on the slow one."""
    book, homes, speeds = StateBook(), ["a", "b", "c", "d"], LEVEL | {"d": 0.5}
    book.learn(ended(homes, 100, speeds), speeds)
    for _ in range(3):
        assert book.settle(homes, FOUR, speeds) == homes


def test_a_partition_without_a_living_home_gets_one_at_once():
    book = StateBook()
    book.learn(ended(["a", "b", "c"], 100), LEVEL)
    assert book.settle(["a", "b", "gone", ""], FOUR, LEVEL) == ["a", "b", "c", "d"]
    assert "d" not in book.settle(["", "", "", ""], FOUR, SLOW_D)


def test_one_heavy_partition_does_not_wander():
    """One partition is one task: on any executor of the same speed it takes as long."""
    book, homes = StateBook(), ["a", "b"]
    book.learn([*ended(["a"], 1000), *ended(["b"], 10)], LEVEL)
    nodes = [ExecutorNode("a", 2), ExecutorNode("b", 2), ExecutorNode("c", 2), ExecutorNode("d", 2)]
    for _ in range(3):
        assert book.settle(homes, nodes, LEVEL) == homes


@examples(150)
@given(
    homes=st.lists(st.sampled_from(["a", "b", "c", "d", "gone", ""]), min_size=1, max_size=40),
    weights_ms=st.lists(st.floats(1.0, 1e4), min_size=40, max_size=40),
    speeds=st.lists(st.floats(0.05, 4.0), min_size=4, max_size=4),
)
def test_every_partition_has_a_living_home_few_move_and_none_for_nothing(homes, weights_ms, speeds):
    by_name = dict(zip("abcd", speeds, strict=True))
    weights_ms = weights_ms[: len(homes)]
    book = StateBook()
    for partition, weight_ms in enumerate(weights_ms):
        book.weights_ms[partition].append(weight_ms)
    before = book.settle(homes, FOUR, by_name)
    assert set(before) <= set("abcd")
    assert all(now == was for now, was in zip(before, homes, strict=True) if was in by_name)
    after = book.settle(before, FOUR, by_name)
    assert sum(now != was for now, was in zip(after, before, strict=True)) <= ceil(MOVED_MAX * len(homes))
    layout = PartitionLayout(dict.fromkeys("abcd", 1), by_name, weights_ms, max(weights_ms))
    moves = layout.improved(before)
    if moves:
        all_moved = [moves.get(partition, home) for partition, home in enumerate(before)]
        was_ms, now_ms = end_ms(before, weights_ms, by_name), end_ms(all_moved, weights_ms, by_name)
        assert now_ms <= (1 - GAIN_MIN) * was_ms * (1 + 1e-9)


def test_speeds_are_shares_per_core():
    nodes = [ExecutorNode("a", 2), ExecutorNode("b"), ExecutorNode("c")]
    assert speeds_of({"a": 4.0, "b": 2.0, "c": 1.0}, nodes) == {"a": 1.0, "b": 1.0, "c": 0.5}
    assert min(speeds_of({"a": 4.0, "b": 2.0, "c": 0.0}, nodes).values()) > 0


def request(batch, tasks):
    return SourceRequest("q", batch, "", [Unit(400, True)], [(name, 1) for name in "abcd"], tasks)


def read(batch, finish_ms):
    return [
        TaskEnd(batch, 0, 0, name, 0, took_ms, 100, True, False, "PROCESS_LOCAL") for name, took_ms in finish_ms.items()
    ]


@pytest.mark.parametrize(("plan", "state", "moves"), [("damped", True, 1), ("even", True, 0), ("damped", False, 0)])
def test_the_planner_places_state_by_its_plan_and_shows_it(plan, state, moves):
    planner = Planner(plan_of(plan), state=state)
    homes = ["a", "b", "c", "d"]
    asked = StateRequest("q", 0, 0, homes, [(name, 1) for name in "abcd"])
    planner.decide(request(0, []))
    assert planner.settle(asked) == [""] * 4, "before anything is known Spark decides"
    speeds = LEVEL | {"d": 0.25}
    for batch in (1, 2):
        took = {name: int(100 / speed) for name, speed in speeds.items()}
        planner.decide(request(batch, [*read(batch - 1, took), *ended(homes, 80, speeds, batch - 1)]))
        placed = planner.settle(StateRequest("q", batch, 0, homes, asked.executors))
    assert sum(now != was for now, was in zip(placed, homes, strict=True) if now) == moves
    shown = {row.executor: row.states for row in planner.history("q")[-1].executors}
    assert shown == {name: placed.count(name) for name in "abcd"}
