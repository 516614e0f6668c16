"""What every policy owes, on random graphs and nodes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import examples

from tailrace.placement import (
    POLICIES,
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
from tailrace.placement.accounting import account
from tailrace.placement.auto import Auto
from tailrace.placement.errors import CapacityError, PartitionerMissingError, UnknownPolicyError
from tailrace.placement.metis import metis_installed
from tailrace.placement.partitioning.indexed import cut_of, indexed

VARIANTS = [
    ("round_robin", {}),
    ("stromax", {}),
    ("stromax", {"neighbour_weight": "traffic", "seed": 3}),
    ("turbostream", {}),
    ("turbostream", {"as_printed": True}),
    pytest.param("metis", {}, marks=pytest.mark.skipif(not metis_installed(), reason="pymetis is not installed")),
    ("auto", {}),
    ("auto", {"shuffle": "node"}),
]


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 16))
    vertices = tuple(TaskVertex(f"t{i}", f"op{i % 3}", i // 3, float(draw(st.integers(0, 6)))) for i in range(n))
    pairs = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))
    edges = tuple(TaskEdge(f"t{i}", f"t{j}", 1.0, float(draw(st.integers(0, 50)))) for i, j in sorted(pairs) if i < j)
    return TaskGraph("random", vertices, edges)


@st.composite
def node_lists(draw, tasks):
    count = draw(st.integers(1, 5))
    capped = draw(st.booleans())
    slots = [draw(st.integers(0, tasks)) if capped else None for _ in range(count)]
    if capped:
        slots[0] += max(0, tasks - sum(slots))
    return [
        Node(
            name=f"h{i}", workers=draw(st.integers(1, 3)), speed=draw(st.sampled_from([0.5, 1.0, 3.0])), slots=slots[i]
        )
        for i in range(count)
    ]


@pytest.mark.parametrize(("name", "options"), VARIANTS)
@given(data=st.data())
@examples(40)
def test_every_task_is_placed_once_within_slots_and_again_the_same(name, options, data):
    graph = data.draw(graphs())
    nodes = data.draw(node_lists(len(graph.vertices)))
    before = by_name("round_robin").place(graph, nodes)
    measured = Snapshot(
        cpu_us_per_tuple={v.id: 1.0 + v.index for v in graph.vertices},
        tuples_in_per_s={v.id: 10.0 * v.cpu for v in graph.vertices},
        node_speed={nodes[0].name: 2.0},
        assignment=before,
    )
    for snapshot in (None, measured):
        placed = by_name(name, **options).place(graph, nodes, snapshot)
        assert list(placed.node_of) == [v.id for v in graph.vertices] == list(placed.worker_of)
        assert sum(len(tasks) for tasks in placed.by_worker.values()) == len(graph.vertices)
        for node in nodes:
            tasks = placed.tasks_on(node.name)
            assert node.slots is None or len(tasks) <= node.slots
            assert all(0 <= placed.worker_of[task] < node.workers for task in tasks)
        assert set(placed.node_of.values()) <= {node.name for node in nodes}
        assert by_name(name, **options).place(graph, nodes, snapshot) == placed


@pytest.mark.parametrize("name", POLICIES)
def test_all_policies_refuse_too_few_slots_and_take_one_node(name):
    graph = expand("g", [OperatorProfile(id="a", tasks=5)], [])
    with pytest.raises(CapacityError):
        by_name(name).place(graph, parse_nodes("2x1x2"))
    if name != "metis" or metis_installed():
        assert len(by_name(name).place(graph, parse_nodes("1x2")).tasks_on("n0")) == 5


@pytest.mark.parametrize("name", ["round_robin", "turbostream", "auto"])
def test_tasks_of_a_node_are_spread_evenly_over_its_workers(name):
    graph = expand("g", [OperatorProfile(id="a", tasks=9), OperatorProfile(id="b", tasks=14)], [OperatorEdge("a", "b")])
    placed = by_name(name).place(graph, parse_nodes("2x4"))
    for node in ("n0", "n1"):
        counts = [len(placed.by_worker.get((node, w), ())) for w in range(4)]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("name", ["stromax", "turbostream", "auto"])
def test_a_topology_that_is_idle_is_spread_by_task_count(name):
    graph = expand("g", [OperatorProfile(id="a", tasks=8, rate_tps=0.0)], [])
    for snapshot in (None, Snapshot(cpu_us_per_tuple={"a[0]": 0.0})):
        placed = by_name(name).place(graph, parse_nodes("4x1"), snapshot)
        assert [len(placed.tasks_on(f"n{i}")) for i in range(4)] == [2, 2, 2, 2]


@given(data=st.data())
@examples(40)
def test_turbostream_finds_the_best_cut_of_small_graphs_or_close_to_it(data):
    n = data.draw(st.sampled_from([4, 6, 8]))
    rates = data.draw(st.lists(st.integers(0, 20), min_size=n * n, max_size=n * n))
    vertices = tuple(TaskVertex(f"t{i}", "t", i) for i in range(n))
    edges = tuple(TaskEdge(f"t{i}", f"t{j}", 1.0, float(rates[i * n + j])) for i in range(n) for j in range(i + 1, n))
    graph = TaskGraph("dense", vertices, edges)
    task_graph = indexed(graph)
    placed = by_name("turbostream").place(graph, parse_nodes("2x1"))
    part = [int(placed.node_of[v.id] == "n1") for v in vertices]
    halves = itertools.combinations(range(n), n // 2)
    optimum = min(cut_of(task_graph, [int(i in half) for i in range(n)]) for half in halves)
    assert sum(part) == n // 2
    assert cut_of(task_graph, part) <= 1.25 * optimum


SHAPES = {
    "exclamation": [5, 5, 5, 5],
    "sol": [5, 5, 5, 5, 5, 5],
    "throughput": [5, 20, 20],
    "page_load": [5, 5, 5, 5, 5, 5, 5],
}


@pytest.mark.skipif(not metis_installed(), reason="pymetis is not installed")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [2, 4])
def test_turbostream_and_auto_cut_about_as_little_as_metis_at_no_worse_balance(shape, count):
    names = [f"o{i}" for i in range(len(SHAPES[shape]))]
    operators = [
        OperatorProfile(id=name, tasks=n, rate_tps=1000.0) for name, n in zip(names, SHAPES[shape], strict=True)
    ]
    graph = expand(shape, operators, [OperatorEdge(a, b) for a, b in itertools.pairwise(names)])
    nodes = parse_nodes(f"{count}x1")
    metis = account(graph, nodes, by_name("metis").place(graph, nodes))
    slack = max(0.05, metis.imbalance - 1)
    for policy, bar in (
        (by_name("turbostream", imbalance_max=slack), 1.25),
        (Auto(imbalance_max=slack, candidates=["turbostream", "stromax", "round_robin"]), 1.15),
    ):
        found = account(graph, nodes, policy.place(graph, nodes))
        assert found.cut <= bar * metis.cut
        assert found.imbalance <= 1 + slack + 1e-9


def test_auto_follows_the_shuffle_in_use():
    # Two nodes, two operators of two tasks. Evenly split, one operator's neighbours cannot all be near: any balanced
    # placement cuts half. With node-local shuffle a task of each operator on each node cuts nothing.
    graph = expand("g", [OperatorProfile(id="a", tasks=2), OperatorProfile(id="b", tasks=2)], [OperatorEdge("a", "b")])
    nodes = parse_nodes("2x1")
    local = account(graph, nodes, by_name("auto", shuffle="node").place(graph, nodes), "node")
    assert (local.cut, local.imbalance, local.skew) == (0.0, 1.0, 1.0)


def test_auto_refuses_candidates_it_does_not_know():
    with pytest.raises(UnknownPolicyError, match="chooses among"):
        by_name("auto", candidates=["magic"])


def test_metis_says_what_to_install_and_auto_does_without(monkeypatch):
    import tailrace.placement.metis as module

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", missing)
    graph = expand("g", [OperatorProfile(id="a", tasks=4)], [])
    with pytest.raises(PartitionerMissingError, match="needs the package pymetis"):
        by_name("metis").place(graph, parse_nodes("2x1"))
    assert "metis" not in by_name("auto").policies
    assert len(by_name("auto").place(graph, parse_nodes("2x1")).tasks_on("n0")) == 2
