import json

import pytest

from tailrace.placement.errors import GraphFileError, TopologyFileError
from tailrace.placement.files.metis_file import read_metis
from tailrace.placement.files.topology_file import read_graph, topology_from

TOPOLOGY = {
    "name": "small",
    "input_rate_tps": 100,
    "tuple_bytes": 50,
    "notes": "for people",
    "operators": [
        {"id": "in", "kind": "source", "parallelism": 2, "selectivity": 0.5},
        {"id": "out", "kind": "sink", "cost": 4},
    ],
    "edges": [{"src": "in", "dst": "out", "grouping": "fields:key"}],
}


def write(path, text):
    path.write_text(text)
    return path


def test_a_metis_graph_with_both_weights(tmp_path):
    graph = read_metis(write(tmp_path / "g.graph", "% three in a row\n3 2 011\n5 2 7\n1 1 7 3 9\n2 2 9\n"))
    assert [v.cpu for v in graph.vertices] == [5.0, 1.0, 2.0]
    assert [(e.src, e.dst, e.bytes_per_s) for e in graph.edges] == [("v[0]", "v[1]", 7.0), ("v[1]", "v[2]", 9.0)]


def test_a_plain_graph_may_have_lonely_vertices(tmp_path):
    graph = read_metis(write(tmp_path / "g.graph", "3 1\n2\n1\n\n"))
    assert [v.cpu for v in graph.vertices] == [1.0, 1.0, 1.0]
    assert len(graph.edges) == 1


def test_sizes_are_passed_over_and_of_several_weights_the_first_counts(tmp_path):
    graph = read_metis(write(tmp_path / "g.mgraph", "2 1 110 2\n99 3 4 2\n99 5 6 1\n"))
    assert [v.cpu for v in graph.vertices] == [3.0, 5.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected vertices"),
        ("2 1 7\n2\n1\n", "binary digits"),
        ("2 1\n2\n", "ends after 1 of 2"),
        ("2 1\n3\n1\n", "neighbours from 1 to 2"),
        ("2 1\nx\n1\n", "line 2: expected whole numbers"),
        ("2 1 001\n2\n1 4\n", "leading numbers"),
        ("3 2\n2\n1\n\n", "declares 2 edges, so 4 ends; found 2"),
    ],
)
def test_malformed_graphs_say_where(tmp_path, text, message):
    with pytest.raises(GraphFileError, match=message):
        read_metis(write(tmp_path / "g.graph", text))


def test_a_topology_file(tmp_path):
    graph = read_graph(write(tmp_path / "t.json", json.dumps(TOPOLOGY)))
    assert graph.name == "small"
    assert [v.id for v in graph.vertices] == ["in[0]", "in[1]", "out[0]"]
    assert [v.cpu for v in graph.vertices] == [50.0, 50.0, 200.0]
    assert graph.edges[0].bytes_per_s == 25 * 50
    assert graph.streams[0].grouping == "fields"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edgs": []}, "Did you mean 'edges'"),
        ({"operators": [{"kind": "source"}]}, "the key 'id' is missing"),
        ({"operators": [{"id": "in", "paralelism": 2}]}, "Did you mean 'parallelism'"),
        ({"operators": [{"id": "in", "cost": "high"}]}, "expected a number in 'cost'"),
        ({"operators": {"id": "in"}}, "expected a list in 'operators'"),
        ({"edges": ["in"]}, r"edges\[0\]: expected an object"),
    ],
)
def test_wrong_topologies_name_the_nearest_key(change, message):
    with pytest.raises(TopologyFileError, match=message):
        topology_from(TOPOLOGY | change, "t.json")


def test_files_that_are_not_there_or_not_json(tmp_path):
    with pytest.raises(TopologyFileError, match="There is no file"):
        read_graph(tmp_path / "none.json")
    with pytest.raises(TopologyFileError, match="is not JSON"):
        read_graph(write(tmp_path / "t.json", "{"))
