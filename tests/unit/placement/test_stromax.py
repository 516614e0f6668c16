"""Known answers worked by hand after text 003, sections 3.2 and 3.3."""

import pytest

from tailrace.placement import (
    Assignment,
    Node,
    OperatorEdge,
    OperatorProfile,
    Snapshot,
    TaskEdge,
    TaskGraph,
    TaskVertex,
    by_name,
    expand,
    parse_nodes,
)
from tailrace.placement.errors import CyclicGraphError, UnknownPolicyError
from tailrace.placement.partitioning.indexed import IndexedGraph
from tailrace.placement.stromax import Streamer, linearise

SMALL = expand(
    "small",
    [OperatorProfile(id="s", tasks=2), OperatorProfile(id="a", tasks=2), OperatorProfile(id="b")],
    [OperatorEdge("s", "a"), OperatorEdge("a", "b")],
)


def test_linearisation_puts_every_task_behind_all_that_feed_it():
    # Five components: 1 and 2 are spouts; 1 -> 3, 2 -> 3, 3 -> 4, 2 -> 5, 4 -> 5.
    vertices = tuple(TaskVertex(str(i), str(i), 0) for i in (5, 4, 3, 2, 1))
    edges = tuple(TaskEdge(a, b) for a, b in ("13", "23", "34", "25", "45"))
    graph = TaskGraph("figure 2", vertices, edges)
    assert [vertices[v].id for v in linearise(graph)] == ["2", "1", "3", "4", "5"]
    starts = {vertices[linearise(graph, seed)[0]].id for seed in range(20)}
    assert starts == {"1", "2"}


def test_a_cycle_is_refused_as_in_algorithm_1():
    vertices = tuple(TaskVertex(name, name, 0) for name in "abc")
    graph = TaskGraph("ring", vertices, (TaskEdge("a", "b"), TaskEdge("b", "c"), TaskEdge("c", "b")))
    with pytest.raises(CyclicGraphError, match="'b' waits for itself"):
        by_name("stromax").place(graph, parse_nodes("2x1"))


def test_bootstrap_by_hand():
    # Capacity 3 each. s0: all scores 0, lowest index -> n0. s1: all 0, least load -> n1.
    # a0: one neighbour on each, 1 x (1 - 1/3) on both -> n0. a1: 1 x 1/3 against 1 x 2/3 -> n1.
    # b0: one neighbour on each, 1 x 1/3 on both -> n0.
    placed = by_name("stromax").place(SMALL, parse_nodes("2x1x3"))
    assert placed.tasks_on("n0") == ("s[0]", "a[0]", "b[0]")
    assert placed.tasks_on("n1") == ("s[1]", "a[1]")


def test_a_full_node_takes_nothing():
    # n0 is full after s0 and all the rest goes to n1, whatever the neighbours say.
    nodes = [Node(name="n0", slots=1), Node(name="n1", slots=4)]
    placed = by_name("stromax").place(SMALL, nodes)
    assert placed.tasks_on("n0") == ("s[0]",)


def test_equation_10_weighs_neighbours_by_cpu_as_printed_or_by_traffic():
    # Task 2 talks to 0 (CPU 5, traffic 1) on node 0 and to 1 (CPU 1, traffic 9) on node 1; capacity 10 each.
    graph = IndexedGraph([5.0, 1.0, 1.0], [{2: 1.0}, {2: 9.0}, {0: 1.0, 1: 9.0}])
    for weights, wanted in ((graph.weight, 0), (None, 1)):  # 5 x 0.5 > 1 x 0.9; 1 x 0.5 < 9 x 0.9
        streamer = Streamer(graph, graph.weight, [10.0, 10.0], [9, 9])
        streamer.put(0, 0)
        streamer.put(1, 1)
        streamer.stream(2, weights)
        assert streamer.part[2] == wanted


def test_a_task_that_fits_nowhere_goes_to_the_least_loaded_node_with_a_slot():
    graph = IndexedGraph([3.0, 2.0, 9.0], [{}, {}, {}])
    streamer = Streamer(graph, graph.weight, [4.0, 4.0], [2, 1])
    streamer.put(0, 0)
    streamer.put(1, 1)
    streamer.stream(2, None)
    assert streamer.part == [0, 1, 0]


def snapshot_of(placed, cpu_us, held=()):
    tasks = [v.id for v in SMALL.vertices]
    return Snapshot(
        cpu_us_per_tuple=dict(zip(tasks, cpu_us, strict=True)),
        tuples_in_per_s=dict.fromkeys(tasks, 1000.0),
        assignment=placed,
        held=frozenset(held),
    )


def test_reassignment_moves_only_what_it_must_and_leaves_the_workers_alone():
    nodes = parse_nodes("2x2")
    everything = Assignment(dict.fromkeys(SMALL.position, "n0"), {task: i % 2 for i, task in enumerate(SMALL.position)})
    after = by_name("stromax", rebalance="reassign").place(SMALL, nodes, snapshot_of(everything, [10] * 5))
    moved = [task for task in SMALL.position if after.node_of[task] == "n1"]
    # Load 50 on n0, mean 25, threshold 28: three of the equal tasks would be too many for n1, two are not enough.
    assert len(moved) == 2
    assert all(after.worker_of[t] == everything.worker_of[t] for t in SMALL.position if t not in moved)
    held = by_name("stromax", rebalance="reassign").place(
        SMALL, nodes, snapshot_of(everything, [10] * 5, held=SMALL.position)
    )
    assert held == everything


def test_global_rebalance_places_two_topologies_as_one_graph():
    union = TaskGraph.union([SMALL, expand("other", [OperatorProfile(id="x", tasks=5)], [])])
    cpu = dict.fromkeys(union.position, 10.0) | {f"other/x[{i}]": 50.0 for i in range(5)}
    snapshot = Snapshot(cpu_us_per_tuple=cpu, tuples_in_per_s=dict.fromkeys(union.position, 1000.0))
    placed = by_name("stromax").place(union, parse_nodes("5x1"), snapshot)
    # 300 in all, 60 a node, threshold 67.2: every node has one heavy task and one light one.
    for node in range(5):
        assert sorted(task.split("/")[0] for task in placed.tasks_on(f"n{node}")) == ["other", "small"]


def test_unknown_choices_are_named():
    with pytest.raises(UnknownPolicyError, match="neighbour_weight"):
        by_name("stromax", neighbour_weight="memory")
