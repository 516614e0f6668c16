import pytest

from tailrace.placement import (
    Assignment,
    OperatorEdge,
    OperatorProfile,
    Snapshot,
    by_name,
    expand,
    measured,
    parse_nodes,
)
from tailrace.placement.partitioning.settle import settle

GRAPH = expand(
    "g",
    [OperatorProfile(id="a", tasks=2), OperatorProfile(id="b", tasks=2), OperatorProfile(id="c", tasks=2)],
    [OperatorEdge("a", "b"), OperatorEdge("b", "c", "fields")],
)


def test_without_measurements_the_declared_weights_stay():
    assert measured(GRAPH, None) is GRAPH
    assert measured(GRAPH, Snapshot()).edges == GRAPH.edges


def test_shuffle_edges_come_from_the_rule_and_keyed_ones_from_what_was_seen():
    edges = {
        # A node-local shuffle carried everything to one task: the rule says half to each.
        ("a[0]", "b[0]"): (80.0, 800.0),
        ("a[0]", "b[1]"): (0.0, 0.0),
        ("a[1]", "b[0]"): (10.0, 100.0),
        ("a[1]", "b[1]"): (10.0, 100.0),
        ("b[0]", "c[0]"): (60.0, 600.0),
    }
    found = measured(GRAPH, Snapshot(edges=edges, remainder={("b", "c"): (30.0, 90.0)}))
    rates = {(e.src, e.dst): (e.tuples_per_s, e.bytes_per_s) for e in found.edges}
    assert rates["a[0]", "b[0]"] == rates["a[0]", "b[1]"] == (40.0, 400.0)
    assert rates["a[1]", "b[0]"] == (10.0, 100.0)
    assert rates["b[0]", "c[0]"] == (60.0, 600.0)
    # Three keyed edges were not reported and share the rest.
    assert rates["b[1]", "c[1]"] == (10.0, 30.0)


def test_cpu_is_cost_by_rate_at_the_speed_of_the_node_it_ran_on():
    placed = by_name("round_robin").place(GRAPH, parse_nodes("2x1"))
    snapshot = Snapshot(
        cpu_us_per_tuple={"a[0]": 10.0, "b[0]": 20.0, "b[1]": 20.0, "c[0]": 5.0, "c[1]": 5.0},
        tuples_in_per_s={"a[0]": 100.0, "b[0]": 300.0, "b[1]": 100.0, "c[0]": 400.0},
        node_speed={"n0": 2.0},
        assignment=placed,
    )
    cpu = {v.id: v.cpu for v in measured(GRAPH, snapshot).vertices}
    # b is fed by shuffle, so both tasks count with the mean rate of 200; b[0] ran on the node of speed 2.
    assert cpu["b[0]"] == pytest.approx(200 * 20e-6 * 2)
    assert cpu["b[1]"] == pytest.approx(200 * 20e-6)
    # c is keyed: its own rate. a[1] has seen nothing and costs what its sibling costs.
    assert cpu["c[0]"] == pytest.approx(400 * 5e-6 * 2)
    assert cpu["c[1]"] == 0.0
    assert cpu["a[1]"] == pytest.approx(50 * 10e-6 * 2)


def test_parts_go_to_the_nodes_where_most_of_their_tasks_are_and_keep_their_workers():
    nodes = parse_nodes("3x2")
    tasks = list(GRAPH.position)
    before = Assignment(
        dict(zip(tasks, ["n2", "n2", "n0", "n0", "n1", "n1"], strict=True)),
        dict(zip(tasks, [1, 0, 1, 0, 1, 0], strict=True)),
    )
    # The same grouping under other numbers is no move at all.
    assert settle(GRAPH, nodes, [0, 0, 1, 1, 2, 2], before) == before
    after = settle(GRAPH, nodes, [0, 0, 1, 1, 1, 2], before)
    assert [task for task in tasks if after.node_of[task] != before.node_of[task]] in (["c[0]"], ["c[1]"])


def test_a_faster_node_gets_more():
    graph = expand("g", [OperatorProfile(id="a", tasks=40)], [])
    placed = by_name("turbostream").place(graph, parse_nodes("2x1"), Snapshot(node_speed={"n1": 3.0}))
    assert len(placed.tasks_on("n1")) in (29, 30, 31)


def test_a_running_placement_that_is_good_stays():
    nodes = parse_nodes("2x2")
    policy = by_name("turbostream")
    first = policy.place(GRAPH, nodes)
    assert policy.place(GRAPH, nodes, Snapshot(assignment=first)) == first
