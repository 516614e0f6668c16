"""Ratios against those of an earlier commit: which fell, in which direction, and what the command says."""

from __future__ import annotations

import json

import pytest

from tailrace.cli.main import main
from tailrace_bench.papers import watch
from tailrace_bench.papers.jobs import Job
from tailrace_bench.papers.runner import JobOutcome
from tailrace_bench.papers.watch import changes


def bench(ratio, better="lower"):
    return {"rows": [{"case": "b", "metric": "p99_ms", "baseline": "even", "ratio": ratio, "better": better}]}


@pytest.mark.parametrize(
    ("before", "now", "better", "flagged"),
    [
        (0.50, 0.59, "lower", False),
        (0.50, 0.61, "lower", True),
        (0.50, 0.20, "lower", False),
        (5.0, 4.1, "higher", False),
        (5.0, 3.9, "higher", True),
        (5.0, 9.0, "higher", False),
    ],
)
def test_a_ratio_may_fall_by_a_fifth(before, now, better, flagged):
    [change] = changes("bench balance", bench(before, better), bench(now, better))
    assert change.flagged is flagged


def test_only_what_both_have_is_compared():
    other = {"rows": [{"case": "c", "metric": "p99_ms", "baseline": "even", "ratio": 9.0, "better": "lower"}]}
    missing = {"rows": [{"case": "b", "metric": "p99_ms", "baseline": "even", "ratio": None, "better": "lower"}]}
    assert changes("x", bench(0.5), other) == []
    assert changes("x", bench(0.5), missing) == []


def test_simulations_are_compared_by_arm():
    def simulated(ratio):
        return {"rows": [{"case": "a", "arm": "lbf", "figures": {}, "ratios": {"fifo": {"max_backlog": ratio}}}]}

    [change] = changes("simulate slots", simulated(0.4), simulated(0.6))
    assert (change.case, change.flagged) == ("a,lbf", True)


JOB = Job("bench", "balance", "b")


@pytest.mark.parametrize(("now", "code"), [(0.55, 0), (0.9, 1)])
def test_the_command_fails_when_a_ratio_fell(tmp_path, monkeypatch, capsys, now, code):
    kept = tmp_path / "quick"
    kept.mkdir()
    (kept / JOB.file_name).write_text(json.dumps({"digest": "old", "document": bench(0.5)}))
    monkeypatch.setattr(watch, "WATCHED", {JOB: 1.0})
    monkeypatch.setattr(watch, "run_all", lambda *_, **__: {JOB: JobOutcome({"document": bench(now)})})
    with pytest.raises(SystemExit) as left:
        main(["bench-check", "--folder", str(tmp_path)])
    assert left.value.code == code
    assert f"{code} of 1 ratios fell by over 20%" in capsys.readouterr().out


def test_without_baselines_it_says_how_to_make_them(tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["bench-check", "--folder", str(tmp_path)])
    assert left.value.code == 2
    assert "bench-check --write" in capsys.readouterr().err
