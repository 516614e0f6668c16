from pathlib import Path

import pytest

from tailrace.placement import OperatorEdge, OperatorProfile, PlacementError, TaskEdge, TaskGraph, TaskVertex, expand
from tailrace.placement.errors import CyclicGraphError, TopologyFileError
from tailrace.placement.files.topology_file import read_graph

SHARED = Path(__file__).parents[4] / "shared" / "data" / "topologies"


def rates(graph):
    return {(e.src, e.dst): e.tuples_per_s for e in graph.edges}


def build(grouping, sources=2, targets=2):
    operators = [
        OperatorProfile(id="s", tasks=sources, rate_tps=12.0, selectivity=2.0, tuple_bytes=10.0),
        OperatorProfile(id="t", tasks=targets, cost=3.0),
    ]
    return expand("g", operators, [OperatorEdge("s", "t", grouping)])


@pytest.mark.parametrize("grouping", ["shuffle", "local", "fields:word", "partial_key", "auto"])
def test_splitting_groupings_share_the_output_evenly(grouping):
    graph = build(grouping)
    assert rates(graph) == {(f"s[{i}]", f"t[{j}]"): 6.0 for i in range(2) for j in range(2)}
    assert {e.bytes_per_s for e in graph.edges} == {60.0}
    # 12 in at cost 1; 24 out and in again at cost 3.
    assert [v.cpu for v in graph.vertices] == [6.0, 6.0, 36.0, 36.0]


def test_all_copies_and_global_goes_to_task_zero():
    assert set(rates(build("all")).values()) == {12.0}
    assert [v.cpu for v in build("all").vertices[2:]] == [72.0, 72.0]
    assert rates(build("global")) == {("s[0]", "t[0]"): 12.0, ("s[1]", "t[0]"): 12.0}
    assert [v.cpu for v in build("global").vertices[2:]] == [72.0, 0.0]


def test_rates_follow_the_selectivities_down_a_diamond():
    operators = [
        OperatorProfile(id="a", rate_tps=10.0),
        OperatorProfile(id="b", selectivity=0.5),
        OperatorProfile(id="c", selectivity=3.0),
        OperatorProfile(id="d"),
    ]
    graph = expand(
        "diamond",
        operators,
        [OperatorEdge("a", "b"), OperatorEdge("a", "c"), OperatorEdge("b", "d"), OperatorEdge("c", "d")],
    )
    assert rates(graph)["b[0]", "d[0]"] == 5.0
    assert [v.cpu for v in graph.vertices] == [10.0, 10.0, 10.0, 35.0]


def test_mistakes_are_named():
    a, b = OperatorProfile(id="a"), OperatorProfile(id="b")
    with pytest.raises(TopologyFileError, match="Did you mean 'shuffle'"):
        expand("g", [a, b], [OperatorEdge("a", "b", "shufle")])
    with pytest.raises(TopologyFileError, match="names the operator 'x'"):
        expand("g", [a, b], [OperatorEdge("a", "x")])
    with pytest.raises(CyclicGraphError, match="in a circle through a, b"):
        expand("g", [a, b], [OperatorEdge("a", "b"), OperatorEdge("b", "a")])
    with pytest.raises(TopologyFileError, match="distinct"):
        expand("g", [a, a], [])
    with pytest.raises(TopologyFileError, match="same two operators"):
        expand("g", [a, b], [OperatorEdge("a", "b"), OperatorEdge("a", "b", "all")])
    with pytest.raises(TopologyFileError, match="at least one task"):
        expand("g", [OperatorProfile(id="a", tasks=0)], [])


def test_a_graph_refuses_unknown_and_doubled_tasks():
    v = TaskVertex("a", "a", 0)
    with pytest.raises(PlacementError, match="does not have"):
        TaskGraph("g", (v,), (TaskEdge("a", "b"),))
    with pytest.raises(PlacementError, match="'a' occurs twice"):
        TaskGraph("g", (v, v))


def test_the_union_of_topologies_keeps_them_apart():
    graph = TaskGraph.union([build("shuffle"), TaskGraph("h", (TaskVertex("s[0]", "s", 0),))])
    assert len(graph.vertices) == 5
    assert {"g/s[0]", "h/s[0]"} <= set(graph.position)
    assert graph.streams == (OperatorEdge("g/s", "g/t", "shuffle"),)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared topologies are not beside this checkout")
def test_the_shared_topologies_expand_to_their_metis_graphs():
    files = sorted(SHARED.glob("*.json"))
    assert len(files) == 11
    for file in files:
        ours, theirs = read_graph(file), read_graph(file.with_suffix(".graph"))
        at = ours.position
        found = {tuple(sorted((at[e.src], at[e.dst]))): 10 * e.tuples_per_s for e in ours.edges}
        wanted = {(theirs.position[e.src], theirs.position[e.dst]): e.tuples_per_s for e in theirs.edges}
        # The files hold rounded whole numbers.
        assert found == pytest.approx(wanted, abs=0.51), file.name
        assert [v.cpu for v in ours.vertices] == pytest.approx([v.cpu for v in theirs.vertices], abs=0.51), file.name
