"""A node for each operator: as many as there are, several where there are more, and a share where there are fewer."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tailrace.placement.by_operator import ByOperator
from tailrace.placement.model import Node, TaskGraph, TaskVertex


def graph(*tasks):
    vertices = [TaskVertex(f"{op}:{index}", f"op{op}", index) for op, many in enumerate(tasks) for index in range(many)]
    return TaskGraph("g", tuple(vertices), ())


def nodes_of(tasks, nodes):
    drawn = graph(*tasks)
    placed = ByOperator().place(drawn, nodes)
    found = defaultdict(set)
    for vertex in drawn.vertices:
        found[vertex.operator].add(placed.place_of(vertex.id))
    return found


def test_each_operator_has_a_node_and_all_its_workers():
    found = nodes_of((10, 10, 10), [Node(name=name, workers=2) for name in "abc"])
    assert found == {f"op{number}": {(name, 0), (name, 1)} for number, name in enumerate("abc")}


def test_with_ten_nodes_three_operators_have_three_three_and_four():
    found = nodes_of((10, 10, 10), [Node(name=f"n{number}", workers=1) for number in range(10)])
    assert sorted(len(places) for places in found.values()) == [3, 3, 4]


def test_with_fewer_workers_than_operators_they_share():
    found = nodes_of((2, 2, 2), [Node(name="a", workers=1), Node(name="b", workers=1)])
    assert [len(places) for places in found.values()] == [1, 1, 1]


@pytest.mark.parametrize("slots", [2, 3])
def test_a_full_node_hands_tasks_on(slots):
    drawn = graph(4, 1)
    placed = ByOperator().place(drawn, [Node(name="a", workers=1, slots=slots), Node(name="b", workers=1, slots=3)])
    on = [placed.place_of(vertex.id)[0] for vertex in drawn.vertices]
    assert on.count("a") == slots
    assert on.count("b") == 5 - slots
