import pytest

from tailrace.placement.metis import metis_installed
from tailrace_bench.placement import graph_rows, many_topologies, row, rows, share_rows, sparse_graph

FIELDS = (
    "case metric unit baseline baseline_value value ratio repeats spread better bar ok paper".split()  # noqa: SIM905
)


def test_a_row_judges_cuts_by_ratio_and_the_rest_by_value():
    cut = row("g@2,p", "cut", "weight", [9.0, 12.0, 10.0], baseline="metis", baseline_value=10.0, bar=1.1)
    assert list(cut) == FIELDS
    assert (cut["value"], cut["ratio"], cut["repeats"], cut["ok"]) == (10.0, 1.0, 3, True)
    assert cut["spread"] == pytest.approx(0.3)
    assert row("g@2,p", "cut", "weight", [12.0], baseline="metis", baseline_value=10.0, bar=1.1)["ok"] is False
    assert row("g@2,p", "place_s", "s", [12.0], baseline="metis", baseline_value=100.0, bar=10.0)["ok"] is False
    assert row("g@2,p", "imbalance", "max/mean", [1.01])["ok"] is None


def test_the_papers_table_stands_beside_our_figures():
    found = list(share_rows())
    assert len(found) == 8
    assert all(line["ok"] for line in found)


def test_the_large_graphs_are_as_large_as_they_say():
    assert len(many_topologies(2, 3).vertices) == 30
    assert len(many_topologies(2, 3).edges) == 72
    graph = sparse_graph(100)
    assert len(graph.vertices) == 100
    assert 100 < len(graph.edges) <= 297


@pytest.mark.skipif(not metis_installed(), reason="pymetis is not installed")
def test_rows_of_one_graph_hold_every_policy_beside_metis_and_round_robin():
    found = graph_rows(many_topologies(1, 4), 2, quick=True)
    barred = {line["case"]: line for line in found if line["metric"] == "cut" and line["bar"]}
    assert set(barred) == {"global@2,turbostream", "global@2,auto", "global@2,auto_without_metis"}
    assert all(line["ok"] for line in barred.values())
    even = [line for line in found if line["case"] == "global@2,round_robin" and line["baseline"] == "round_robin"]
    assert [line["ratio"] for line in even] == [1.0]


@pytest.mark.skipif(not metis_installed(), reason="pymetis is not installed")
def test_a_data_folder_is_read_and_a_missing_one_said(tmp_path, monkeypatch):
    import tailrace_bench.placement as module

    monkeypatch.setattr(module, "scale_rows", lambda repeats: [])
    said = []
    assert len(rows(tmp_path, quick=True, say=said.append)) == 8
    assert "only the built-in cases" in said[0]
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "path.graph").write_text("4 3\n2\n1 3\n2 4\n3\n")
    found = rows(tmp_path, quick=True)
    cuts = {line["case"]: line["value"] for line in found if line["metric"] == "cut"}
    assert cuts["path@2,turbostream"] == 1.0
