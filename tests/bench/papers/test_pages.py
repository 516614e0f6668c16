"""The command from end to end with figures laid ready, and what stands on the pages and in the plots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tailrace.cli.main import app, main
from tailrace_bench.papers import cli
from tailrace_bench.papers.claims import Plot, read_claims
from tailrace_bench.papers.plots import panels_of
from tailrace_bench.papers.readme import BEGIN, END
from tailrace_bench.papers.store import Store

CLAIMS = """
[[paper]]
id = "hone"
title = "Hone"
about = "Queues."
"""
CLAIM = """
[[claim]]
id = "{id}"
paper = "hone"
section = "4.4"
claim = "{id} is smaller"
figure = "-50 %"
theirs = 0.5
run = "{run}"
case = "x"
arm = "lbf"
metric = "max_backlog"
baseline = "fifo"
headline = true
why = "It idles. That is all."
"""
PLOT = """
[[plot]]
id = "hone-lines"
paper = "hone"
title = "Backlog over rate"
run = "simulate slots"
panels = ["backlog"]
"""
DOCUMENT = {
    "seeds": 3,
    "versions": {"tailrace": "1"},
    "rows": [
        {"case": "x", "arm": "fifo", "figures": {"max_backlog": 10.0}, "ratios": {}},
        {"case": "x", "arm": "lbf", "figures": {"max_backlog": 9.0}, "ratios": {"fifo": {"max_backlog": 0.9}}},
    ],
    "panels": [
        {"title": "backlog", "x_label": "rate, tuples/s", "y_label": "tuples", "lines": {"lbf": [[1, 2], [2, 3]]},
         "log_x": False, "log_y": False, "ticks": []},
    ],
}  # fmt: skip


@pytest.fixture
def laid_ready(tmp_path, monkeypatch):
    """Claims of our own, and figures an earlier run has found; gives the folder of results."""
    file = tmp_path / "claims.toml"
    claims = CLAIM.format(id="backlog", run="simulate slots") + CLAIM.format(id="other", run="bench perpetuum")
    file.write_text(CLAIMS + claims + PLOT)
    monkeypatch.setattr(cli, "read_claims", lambda: read_claims(file))
    out = tmp_path / "results"
    raw = out / "raw" / "quick"
    raw.mkdir(parents=True)
    kept = {
        "run": "tailrace simulate slots --quick", "quick": True, "digest": "of other code", "took_s": 3.0,
        "commit": "abc123", "versions": {"tailrace": "1"}, "document": DOCUMENT,
        "machine": {"cores": 2, "cpu": "any", "busy_cores_before": 0.1},
    }  # fmt: skip
    (raw / "simulate-slots.json").write_text(json.dumps(kept))
    return out


def test_a_page_has_table_reasons_plots_and_what_it_was_run_on(laid_ready, capsys):
    with pytest.raises(SystemExit) as left:
        main(["papers", "--quick", "--no-run", "--out", str(laid_ready)])
    assert left.value.code == 0
    page = (laid_ready / "hone.md").read_text()
    assert "0.900 of fifo (9 against 10; 3 runs)" in page
    assert "**holds but smaller**" in page
    assert "It idles. That is all." in page
    assert "not run: there is no `tailrace bench perpetuum` in this version" in page
    assert "![Backlog over rate](plots/hone-lines.svg)" in page
    assert "commit abc123" in page
    plot = (laid_ready / "plots" / "hone-lines.svg").read_text()
    assert plot.lstrip().startswith("<?xml")
    assert "| [Hone](hone.md) | 0 | 1 | 0 | 1 |" in (laid_ready / "README.md").read_text()
    assert "1 holds but smaller, 0 does not hold, 1 not run" in capsys.readouterr().out


def test_the_projects_readme_gets_the_verdicts_between_its_marks_and_nothing_else(laid_ready, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "RESULTS", Path(laid_ready.name))
    readme = tmp_path / "README.md"
    readme.write_text(f"# Top\n\n{BEGIN}\nan old table\n{END}\n\nBottom.\n")
    for _ in range(2):  # a second time writes the same
        with pytest.raises(SystemExit):
            main(["papers", "--quick", "--no-run", "--out", "results"])
        text = readme.read_text()
        assert text.startswith("# Top\n\n")
        assert text.endswith(f"{END}\n\nBottom.\n")
        assert "| [Hone](results/hone.md) | 0 | 1 | 0 | 1 |" in text
        assert "an old table" not in text
    for text, out in (("no marks", "results"), (f"{BEGIN}{END}", "elsewhere")):
        readme.write_text(text)
        with pytest.raises(SystemExit):
            main(["papers", "--quick", "--no-run", "--out", out])
        assert readme.read_text() == text


def test_what_no_run_found_is_said_to_be_missing(laid_ready):
    Store(laid_ready / "raw", "any", quick=True)
    (laid_ready / "raw" / "quick" / "simulate-slots.json").unlink()
    with pytest.raises(SystemExit):
        main(["papers", "--quick", "--no-run", "--out", str(laid_ready)])
    page = (laid_ready / "hone.md").read_text()
    assert "not run: it was not run" in page
    assert "not drawn" in page


def test_the_commands_are_listed_and_an_unknown_paper_names_the_nearest(capsys):
    listed = CliRunner().invoke(app, ["--help"]).stdout
    assert "papers" in listed
    assert "bench-check" in listed
    with pytest.raises(SystemExit) as left:
        main(["papers", "--only", "hones"])
    assert left.value.code == 2
    assert "Did you mean 'hone'?" in capsys.readouterr().err


def plot(**changed):
    usual = {"id": "p", "paper": "hone", "title": "t", "run": "bench ring", "metric": "p50_us"}
    return Plot(**(usual | changed))


def row(case, value, baseline, base):
    return {"case": case, "metric": "p50_us", "value": value, "baseline": baseline, "baseline_value": base}


def test_rows_of_a_bench_become_curves_over_numbers_in_their_cases():
    rows = [row("40KB@100/s", 30, "netty", 90), row("10KB@100/s", 20, "netty", 80), row("10KB@3000/s", 1, "netty", 2)]
    [panel] = panels_of(plot(case="(?P<x>[0-9]+KB)@100/s"), {"rows": rows})
    assert panel.lines == {"ours": [(10240.0, 20), (40960.0, 30)], "netty": [(10240.0, 80), (40960.0, 90)]}
    assert not panel.ticks


def test_names_in_cases_become_bars():
    rows = [row("uneven", 3, "simulated", 4), row("stalls", 5, "simulated", 6)]
    [panel] = panels_of(plot(case="(?P<x>[a-z]+)"), {"rows": rows})
    assert panel.ticks == ("uneven", "stalls")
    assert panel.lines["simulated"] == [(0.0, 4), (1.0, 6)]


def test_no_rows_make_no_panel():
    assert panels_of(plot(case="none(?P<x>.)"), {"rows": [row("a", 1, "b", 2)]}) == []
