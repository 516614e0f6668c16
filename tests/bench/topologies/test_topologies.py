"""The parts of ``tailrace bench topologies`` that need no nodes: data, flows, rows; and one case on real processes."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

import tailrace as tr
from tailrace.testing import run as run_in_process
from tailrace.topology.plan import make_plan
from tailrace_bench.bench import BenchRequest
from tailrace_bench.errors import UnknownBenchError
from tailrace_bench.measurement.pace import Pace
from tailrace_bench.peers.panel import Panel
from tailrace_bench.topologies import together
from tailrace_bench.topologies.arms import PlacedArm, TopologyMeasurements, run_case
from tailrace_bench.topologies.cases import CASES, LOCAL, PLAIN, STROMAX, TCP, TURBOSTREAM, TopologyTimes
from tailrace_bench.topologies.flows import Classifier, Clockings, apply_rules, clean, join_scores, sensitize
from tailrace_bench.topologies.run import BENCH, byte_rows, time_rows
from tailrace_bench.topologies.texts import NEGATIVE, POSITIVE, log_lines, posts, strings


def test_texts_are_the_same_for_a_seed_and_the_rules_know_every_line():
    lines = log_lines(200)
    assert lines == log_lines(200) != log_lines(200, seed=2)
    entries = [apply_rules((line, 0)) for line in lines]
    assert {entry[0] for entry in entries} == {"sshd", "CRON", "systemd-logind", "kernel", "sudo"}
    assert {entry[1] for entry in entries} == {"error", "notice", "info"}
    assert apply_rules(("no log line", 0))[0] == "unknown"
    assert all(set(json.loads(post)) == {"id", "user", "lang", "text"} for post in posts(50))
    assert {len(each) for each in strings(10_000, 3)} == {10_000}


def test_a_post_is_scored_by_both_moods_and_joined():
    post = json.dumps({"text": "The GREAT, great day! was sad..."})
    words = clean(sensitize((post, 7)))
    assert words == (7, ["great", "great", "day", "sad"])
    assert Classifier("positive", POSITIVE)(words) == (7, "positive", 0.5)
    assert Classifier("negative", NEGATIVE)(words) == (7, "negative", 0.25)
    flow = tr.Topology("join")
    good = flow.source(tr.sources.items([(7, "positive", 0.5), (8, "positive", 0.0)]), name="good")
    bad = flow.source(tr.sources.items([(8, "negative", 0.1), (7, "negative", 0.25)]), name="bad")
    good.union(bad).key_by(lambda score: score[0]).process(join_scores).sink(tr.sinks.collect())
    assert sorted(run_in_process(flow).values()) == [(7, 0.5, 0.25), (8, 0.0, 0.1)]


@pytest.mark.parametrize("name", CASES)
def test_cases_are_drawn_unchained_with_their_baselines_among_the_arms(name, tmp_path):
    case = CASES[name]
    panel = Panel(tmp_path / "panel", create=True)
    flow = case.draw(panel.path, case.values()[:2], str(tmp_path / "times"))
    flow.validate()
    plan = make_plan(flow)
    assert all(edge.grouping.kind in {"shuffle", "fields"} for edge in plan.edges)
    assert set(case.baselines) <= set(case.arms)
    assert {ends for pair in (*case.bars, *case.papers) for ends in pair} <= set(case.arms)
    assert len(case.hosts) == case.workers
    assert len(set(case.hosts)) == case.nodes


def progress_of(tuples, crossing, size=10):
    row = {
        "tuples": {"inProcess": tuples - crossing, "intraNode": 0, "interNode": crossing},
        "bytes": {"intraNode": 0, "interNode": crossing * size},
        "predicted": {"tuples": {"inProcess": tuples - crossing, "intraNode": 0.0, "interNode": float(crossing)}},
    }
    return {"read": tuples, "traffic": [row]}


def test_the_bar_is_on_the_better_paper_policy_and_bytes_are_held_against_the_prediction():
    arms = {PLAIN: 2.0, LOCAL: 1.5, STROMAX: 1.2, TURBOSTREAM: 1.4}
    measured = {name: TopologyMeasurements(200.0, [ms] * 5, [], progress_of(100, 75)) for name, ms in arms.items()}
    measured[STROMAX].progress = progress_of(100, 25)
    measured[TURBOSTREAM].progress["traffic"][0]["bytes"]["interNode"] = 900
    rows = time_rows(CASES["LP"], measured)
    judged = [(row["case"], row["baseline"], row["ratio"], row["ok"]) for row in rows if row["bar"] is not None]
    assert judged == [("LP,stromax", PLAIN, pytest.approx(0.6), True)]
    assert [row["paper"] for row in rows if row["case"] == "LP,stromax"] == [0.63, None]
    found = {(row["case"], row["metric"]): row for row in byte_rows(CASES["LP"], measured)}
    assert found["LP,stromax", "inter_node_bytes"]["value"] == pytest.approx(2.5)
    assert found["LP,stromax", "off_predicted"]["ok"]
    assert not found["LP,turbostream", "off_predicted"]["ok"]  # 9 bytes per tuple where 7.5 were predicted


def test_a_rate_is_raised_until_the_machine_is_half_busy(monkeypatch):
    monkeypatch.setattr(PlacedArm, "offer", lambda self, _seconds, *, counts: self.measured.per_s / 1000 + counts)
    arm = PlacedArm.__new__(PlacedArm)
    arm.measured = TopologyMeasurements(per_s=200.0)
    assert arm.raise_rate(1.0) == arm.measured.per_s == 675.0


def test_clockings_add_up_over_tasks(tmp_path):
    cells = Clockings(str(tmp_path / "times"), create=True)
    cells.add(0, 500, 1)
    Clockings(str(tmp_path / "times")).add(3, 700, 2)
    assert cells.read() == (1200, 3)


def test_an_unknown_case_names_the_nearest():
    with pytest.raises(UnknownBenchError, match="SOLE"):
        BENCH.run(BenchRequest(Console(file=io.StringIO()), quick=True, only="SOLE"))


def test_a_case_runs_on_nodes_apart():
    """Two nodes of one worker each: round robin sends half across, and what crosses is late by the link's delay."""
    case = CASES["ThroughputTest@2N2W"]
    with Pace(Console(file=io.StringIO()), 1.0) as pace:
        measured = run_case(case, TopologyTimes(rounds=1, warm_s=0.2, offer_s=0.5), pace)
    plain = measured[TCP]
    row = plain.progress["traffic"][0]
    assert row["tuples"]["interNode"] == pytest.approx(row["predicted"]["tuples"]["interNode"], rel=0.15)
    assert plain.sink_ms[0] > 0.25  # half of the tuples took 0.5 ms more
    assert measured[TURBOSTREAM].progress["read"] == plain.progress["read"]
    assert all(row["ok"] is not False for row in byte_rows(case, measured))


def test_three_topologies_are_rebalanced_as_one_and_drawn(tmp_path):
    times = together.TogetherTimes(apart_s=0.1, before_s=0.6, settle_s=0.1, after_s=0.6)
    with Pace(Console(file=io.StringIO()), 1.0) as pace:
        rows, notes = together.rows(times, pace, tmp_path)
    found = {(row["case"], row["metric"]): row for row in rows}
    assert set(found) == {
        *((f"together,{name}", "tpt_ms") for name in ("WC", "TT", "TSSA")),
        ("together", "tasks_moved"),
    }
    assert found["together", "tasks_moved"]["value"] > 0
    assert all(row["value"] > 0 for row in rows)
    assert {file.name for file in tmp_path.iterdir()} == {"topologies-together.svg", "topologies-together.png"}
    assert len(notes) == 3
