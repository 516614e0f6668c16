from dataclasses import replace
from itertools import pairwise

import pytest

from tailrace.errors import ConfigError
from tailrace.placement import Assignment, Node, OperatorEdge, OperatorProfile, TaskEdge, by_name, expand, parse_nodes
from tailrace.placement.accounting import Traffic, account, traffic_of


@pytest.mark.parametrize(
    ("distribution", "intra", "inter"),
    [
        ("8x1", 0.0, 100.0),  # 8N8W
        ("4x2", 14.29, 85.71),  # 4N8W
        ("2x4", 42.86, 57.14),  # 2N8W
        ("1x1", 0.0, 0.0),  # 1N1W
        ("4x1", 0.0, 100.0),  # 4N4W
        ("2x2", 33.33, 66.67),  # 2N4W
        ("2x1", 0.0, 100.0),  # 2N2W
        ("1x2", 100.0, 0.0),  # 1N2W
    ],
)
def test_table_2_of_turbostream_is_reproduced_exactly(distribution, intra, inter):
    nodes = parse_nodes(distribution)
    workers = sum(node.workers for node in nodes)
    names = ["spout", "bolt1", "bolt2", "bolt3", "bolt4", "bolt5"]
    graph = expand(
        "sol", [OperatorProfile(id=n, tasks=workers) for n in names], [OperatorEdge(a, b) for a, b in pairwise(names)]
    )
    total = account(graph, nodes, by_name("round_robin").place(graph, nodes)).total
    assert round(100 * total.intra_node_share, 2) == intra
    assert round(100 * total.inter_node_share, 2) == inter


# a on n0/w0; b[0] beside it, b[1] in the other worker, b[2] on n1.
GRAPH = expand(
    "g",
    [OperatorProfile(id="a", rate_tps=30.0), OperatorProfile(id="b", tasks=3, tuple_bytes=1)],
    [OperatorEdge("a", "b")],
)
NODES = (Node(name="n0", workers=2), Node(name="n1"))
PLACED = Assignment(
    {"a[0]": "n0", "b[0]": "n0", "b[1]": "n0", "b[2]": "n1"}, {"a[0]": 0, "b[0]": 0, "b[1]": 1, "b[2]": 0}
)


def test_traffic_is_told_apart_by_kind_of_link():
    found = account(GRAPH, NODES, PLACED)
    assert found.total == Traffic(10.0, 10.0, 10.0, 1000.0, 1000.0, 1000.0)
    assert found.streams == {("a", "b"): found.total}
    assert found.cut == 1000.0
    assert found.node_loads == {"n0": 50.0, "n1": 10.0}
    # 60 over three workers: 20 each would be fair, n0's two should have 40 and have 50.
    assert found.imbalance == pytest.approx(50 / 40)
    assert found.worker_imbalance == pytest.approx(40 / 20)


def test_measured_edges_are_summed_the_same_way():
    edges = [TaskEdge("a[0]", "b[2]", 3.0, 7.0), TaskEdge("a[0]", "b[0]", 1.0, 2.0)]
    assert traffic_of(edges, PLACED) == Traffic(1.0, 0.0, 3.0, 2.0, 0.0, 7.0)


def test_local_shuffle_prefers_the_worker_then_the_node_then_everyone():
    assert account(GRAPH, NODES, PLACED, "worker", 99.0).total.in_process_tuples == pytest.approx(30.0)
    moved = Assignment(PLACED.node_of, {**PLACED.worker_of, "b[0]": 1})
    assert account(GRAPH, NODES, moved, "worker", 99.0).total.inter_node_tuples == pytest.approx(10.0)
    found = account(GRAPH, NODES, moved, "node", 99.0)
    assert (found.total.intra_node_tuples, found.total.inter_node_tuples) == pytest.approx((30.0, 0.0))
    # Two tasks share what three were meant to: one and a half times each, and n1 is idle.
    assert found.skew == pytest.approx(1.5)
    assert found.node_loads == pytest.approx({"n0": 60.0, "n1": 0.0})
    away = Assignment({**PLACED.node_of, "a[0]": "n1", "b[2]": "n0"}, {**PLACED.worker_of, "a[0]": 0})
    assert account(GRAPH, NODES, away, "node").total.inter_node_tuples == pytest.approx(30.0)


def test_nearness_gives_no_task_more_than_the_bound_allows():
    # Three tasks share 30 evenly at 10; near ones may have 12 each, and what is left goes to the far one.
    moved = Assignment(PLACED.node_of, {**PLACED.worker_of, "b[0]": 1})
    found = account(GRAPH, NODES, moved, "node", 1.2)
    assert (found.total.intra_node_tuples, found.total.inter_node_tuples) == pytest.approx((24.0, 6.0))
    assert found.skew == pytest.approx(1.2)


def test_streams_by_root_keep_near_only_while_their_roots_do():
    operators = [OperatorProfile(id=name, tasks=2, rate_tps=10.0) for name in "abc"]
    node_of = {f"{name}[{task}]": f"n{task}" for name in "abc" for task in range(2)}
    placed = Assignment(node_of, dict.fromkeys(node_of, 0))
    nodes = (Node(name="n0"), Node(name="n1"))
    for first, crossing in (("shuffle", 0.0), ("fields", 10.0)):
        graph = expand("g", operators, [OperatorEdge("a", "b", first), OperatorEdge("b", "c")])
        by_root = replace(graph, streams=(graph.streams[0], OperatorEdge("b", "c", "root")))
        assert account(by_root, nodes, placed, "node").total.inter_node_tuples == pytest.approx(crossing)


def test_skewed_tasks_send_more_downstream_and_keyed_streams_stay_even():
    graph = expand(
        "g",
        [OperatorProfile(id="a", rate_tps=12.0), OperatorProfile(id="b", tasks=2), OperatorProfile(id="c", tasks=2)],
        [OperatorEdge("a", "b", "local"), OperatorEdge("b", "c", "fields")],
    )
    node_of = {"a[0]": "n0", "b[0]": "n0", "b[1]": "n1", "c[0]": "n0", "c[1]": "n1"}
    placed = Assignment(node_of, dict.fromkeys(node_of, 0))
    # Grouped local: even without node-local shuffle everything goes to b[0], which then sends 6 to each c.
    found = account(graph, (Node(name="n0"), Node(name="n1")), placed)
    assert found.streams["a", "b"].in_process_tuples == 12.0
    assert found.streams["b", "c"].in_process_tuples == found.streams["b", "c"].inter_node_tuples == 6.0


def test_unknown_shuffles_and_idle_graphs():
    with pytest.raises(ConfigError, match="Expected shuffle among"):
        account(GRAPH, NODES, PLACED, "nod")
    idle = expand("g", [OperatorProfile(id="a", rate_tps=0.0)], [])
    found = account(idle, (Node(name="n0"),), Assignment({"a[0]": "n0"}, {"a[0]": 0}))
    assert (found.imbalance, found.cut) == (1.0, 0.0)
