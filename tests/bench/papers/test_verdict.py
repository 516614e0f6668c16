"""How much of a paper's gain is left, and the word for it; and how figures are found in what jobs write."""

from __future__ import annotations

import pytest

from tailrace_bench.papers.claims import Claim
from tailrace_bench.papers.jobs import Figure, find
from tailrace_bench.papers.verdict import FAILS, HOLDS, NOT_RUN, SMALLER, judge


def claim(**changed):
    usual = {
        "id": "c", "paper": "p", "section": "1", "claim": "quicker", "figure": "-50 %", "theirs": 0.5,
        "run": "bench balance b", "case": "b", "metric": "p99_ms", "baseline": "even", "why": "One. Two.",
    }  # fmt: skip
    return Claim(**(usual | changed))


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [(0.3, HOLDS), (0.5, HOLDS), (0.54, HOLDS), (0.6, SMALLER), (0.94, SMALLER), (0.96, FAILS), (1.4, FAILS)],
)
def test_less_is_better(ours, verdict):
    assert judge(claim(), Figure(ours, ours)).verdict == verdict


@pytest.mark.parametrize(("ours", "verdict"), [(12.0, HOLDS), (4.0, SMALLER), (1.5, FAILS), (0.5, FAILS)])
def test_more_is_better(ours, verdict):
    assert judge(claim(theirs=10.0), Figure(ours, ours)).verdict == verdict


def test_a_value_is_held_against_the_figure_at_which_nothing_is_left():
    batches = claim(theirs=6, nothing=20, measure="value")
    assert judge(batches, Figure(5, 5)).verdict == HOLDS
    assert judge(batches, Figure(13, 13)).share == pytest.approx(0.5)
    assert judge(batches, Figure(25, 25)).verdict == FAILS


def test_without_a_figure_there_is_a_reason_and_no_verdict_of_its_own():
    judged = judge(claim(), None, "no such bench")
    assert (judged.verdict, judged.reason, judged.share) == (NOT_RUN, "no such bench", None)


BENCH = {
    "rows": [
        {"case": "b", "metric": "p99_ms", "baseline": "load_aware", "baseline_value": 5, "value": 4, "ratio": 0.8,
         "repeats": 3, "spread": 0.1},
        {"case": "b", "metric": "p99_ms", "baseline": "even", "baseline_value": 8, "value": 4, "ratio": 0.5,
         "repeats": 3, "spread": 0.1},
        {"case": "b", "metric": "p999_ms", "baseline": "few samples", "baseline_value": None, "value": None,
         "ratio": None, "repeats": 0, "spread": 0.0},
    ]
}  # fmt: skip
SIMULATED = {
    "seeds": 3,
    "rows": [
        {"case": "a", "arm": "even", "figures": {"p99_ms": 8.0}, "ratios": {}},
        {"case": "a", "arm": "ours", "figures": {"p99_ms": 4.0}, "ratios": {"even": {"p99_ms": 0.51}}},
    ],
}


def test_figures_of_a_bench_are_found_by_case_metric_and_baseline():
    asked = {"case": "b", "arm": "", "metric": "p99_ms", "ratio": True}
    assert find(BENCH, baseline="even", **asked) == Figure(0.5, 4, 8, 3, 0.1)
    assert find(BENCH, baseline="latency", **asked) is None
    assert find(BENCH, case="b", arm="", metric="p99_ms", baseline="", ratio=False).ours == 4
    assert find(BENCH, case="b", arm="", metric="p999_ms", baseline="", ratio=True) is None


def test_figures_of_a_simulation_are_found_by_arm_too():
    asked = {"case": "a", "metric": "p99_ms"}
    assert find(SIMULATED, arm="ours", baseline="even", ratio=True, **asked) == Figure(0.51, 4.0, 8.0, 3)
    assert find(SIMULATED, arm="ours", baseline="", ratio=False, **asked).ours == 4.0
    assert find(SIMULATED, arm="theirs", baseline="even", ratio=True, **asked) is None
    assert find(SIMULATED, arm="ours", baseline="other", ratio=True, **asked) is None
