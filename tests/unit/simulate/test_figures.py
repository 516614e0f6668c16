"""Hone's figures 6 to 8 in shape, against the idling and the work-conserving round robin; and the command itself."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tailrace.cli.main import app, main
from tailrace.simulate.comparison import ComparisonRow, PlotPanel, SimulationReport
from tailrace.simulate.plots import draw
from tailrace.simulate.scenarios import hone
from tailrace.simulate.scenarios.catalogue import SCENARIOS
from tailrace.simulate.slots import SLOTS, arrivals, jain, run_slots

GATES = ("lbf", "round_robin", "idling_round_robin", "fifo")


@pytest.fixture(scope="module")
def runs():
    found = {}
    for queues, rate in [(10, 500), (10, 1000), (10, 5000), (20, 1000)]:
        trace = arrivals(queues, rate, SLOTS, 1)
        found[queues, rate] = {gate: run_slots(gate, trace) for gate in GATES}
    return found


def test_figure_6_lbf_has_the_smallest_largest_backlog_everywhere(runs):
    for arms in runs.values():
        assert all(arms["lbf"].max_backlog <= arms[gate].max_backlog for gate in GATES)
    assert runs[10, 1000]["lbf"].max_backlog < 0.25 * runs[10, 1000]["idling_round_robin"].max_backlog
    assert runs[10, 1000]["lbf"].max_backlog < 0.65 * runs[10, 1000]["round_robin"].max_backlog


def test_figure_6_the_gap_closes_under_overload(runs):
    def ratio(case):
        return runs[case]["lbf"].max_backlog / runs[case]["idling_round_robin"].max_backlog

    assert ratio((10, 1000)) < ratio((10, 5000))
    assert ratio((10, 5000)) > 0.9
    assert ratio((20, 1000)) > 0.8


def test_figure_7_backlogs_are_most_even_under_lbf_and_alike_under_overload(runs):
    def fairness(case, gate):
        return sum(runs[case][gate].jain)

    for gate in GATES[1:]:
        assert fairness((10, 1000), "lbf") > 1.2 * fairness((10, 1000), gate)
        assert fairness((10, 5000), "lbf") == pytest.approx(fairness((10, 5000), gate), rel=0.02)


def test_figure_8_the_mean_delay_is_less_only_than_that_of_the_idling_round_robin(runs):
    """No order of equal tuples changes the mean, as long as nothing idles: what the paper gains there is the idling."""
    arms = runs[10, 500]
    assert arms["lbf"].left == 0
    assert arms["lbf"].mean_delay_ms == pytest.approx(arms["round_robin"].mean_delay_ms)
    assert arms["lbf"].mean_delay_ms == pytest.approx(arms["fifo"].mean_delay_ms)
    assert arms["lbf"].mean_delay_ms < 0.2 * arms["idling_round_robin"].mean_delay_ms


def test_no_slot_is_wasted_but_by_the_idling_one(runs):
    arms = runs[10, 1000]
    assert len({arms[gate].sent for gate in ("lbf", "round_robin", "fifo")}) == 1
    assert arms["idling_round_robin"].sent < arms["lbf"].sent


def test_jains_index():
    assert jain([3, 3, 3]) == 1.0
    assert jain([3, 0, 0]) == pytest.approx(1 / 3)
    assert jain([0, 0]) == 1.0


# -- the command -----------------------------------------------------------------------------------------------------


def test_simulate_prints_a_table_and_writes_json_and_a_plot(tmp_path, capsys, monkeypatch):
    for name in ("RATES_QUICK_PER_S", "QUEUES_QUICK"):
        monkeypatch.setattr(hone, name, getattr(hone, name)[:2])
    figures, plot = tmp_path / "out.json", tmp_path / "plots" / "out.svg"
    with pytest.raises(SystemExit) as left:
        main(["simulate", "slots", "--quick", "--json", str(figures), "--plot", str(plot)])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert "max backlog" in shown
    assert "idling_round_robin" in shown
    found = json.loads(figures.read_text())
    assert found["scenario"] == "slots"
    assert found["rows"][0]["figures"]["max_backlog"] == 2
    assert plot.read_text().lstrip().startswith("<?xml")


def test_an_unknown_scenario_names_the_nearest(capsys):
    with pytest.raises(SystemExit) as left:
        main(["simulate", "ballance"])
    assert left.value.code == 2
    assert "Did you mean 'balance'?" in capsys.readouterr().err


def test_simulate_is_listed():
    assert "simulate" in CliRunner().invoke(app, ["--help"]).stdout


def test_every_scenario_says_what_it_shows():
    assert all(scenario.__doc__ for scenario in SCENARIOS.values())


def test_panels_without_points_are_drawn_too(tmp_path):
    report = SimulationReport("none", "", [ComparisonRow("a", "b", {})], [PlotPanel("t", "x", "y", {"empty": []})], ())
    draw(report, tmp_path / "empty.png", None)
    assert (tmp_path / "empty.png").stat().st_size > 1000
