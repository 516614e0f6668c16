"""The arithmetic of a row: what is paired, what the median and the spread are of, when a bar holds."""

from __future__ import annotations

import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.metrics.spread import quartile_distance
from tailrace_bench.reporting.rows import failed, limit_row, make_row, meets, missing_row, paired_ratios

KEYS = [
    "case", "metric", "unit", "baseline", "baseline_value", "value", "ratio", "repeats", "spread", "better", "bar",
    "ok", "paper",
]  # fmt: skip
positive = st.floats(min_value=1e-3, max_value=1e9)


def test_a_row_has_the_keys_of_the_report_in_their_order():
    row = make_row("spark,tracked", "sentences_per_s", "sentences/s", [1.0, 2.0], better="higher")
    assert list(row) == KEYS
    assert json.loads(json.dumps(row)) == row


def test_the_ratio_is_the_median_of_paired_ratios_not_the_ratio_of_medians():
    values, base = [10.0, 40.0, 90.0], [10.0, 20.0, 100.0]
    row = make_row("c", "m", "u", values, better="higher", baseline="b", base=base)
    assert row["ratio"] == 1.0
    assert row["value"] / row["baseline_value"] == 2.0
    assert row["repeats"] == 3


def test_a_slow_machine_in_one_repeat_slows_both_arms_and_leaves_the_ratio():
    row = make_row("c", "m", "u", [100.0, 10.0, 100.0], better="higher", base=[50.0, 5.0, 50.0], bar=2.0)
    assert row["ratio"] == 2.0
    assert row["spread"] == 0.0
    assert row["ok"] is True


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=9))
def test_the_ratio_lies_between_the_smallest_and_the_largest_pair(pairs):
    values, base = zip(*pairs, strict=True)
    row = make_row("c", "m", "u", values, better="higher", base=base)
    ratios = paired_ratios(values, base)
    assert min(ratios) <= row["ratio"] <= max(ratios)
    assert 0 <= row["spread"] <= (max(ratios) - min(ratios)) * (1 + 1e-9)
    assert row["value"] == statistics.median(values)


def test_spread_is_the_distance_of_the_quartiles_so_that_one_outlier_does_not_make_it():
    assert quartile_distance([1.0, 2.0, 3.0, 4.0, 1000.0]) == 2.0
    assert quartile_distance([5.0]) == 0.0


def test_a_baseline_of_zero_gives_no_ratio():
    row = make_row("c", "m", "u", [1.0], better="higher", baseline="b", base=[0.0], bar=1.0)
    assert row["ratio"] is None
    assert row["ok"] is None


@pytest.mark.parametrize(
    ("ratio", "bar", "better", "spread", "ok"),
    [
        (0.22, 0.22, "higher", 0.0, True),
        (0.2199, 0.22, "higher", 0.0, False),
        (1.0, 1.0, "lower", 0.0, True),
        (1.05, 1.0, "lower", 0.0, False),
        (1.05, 1.0, "lower", 0.1, True),
        (1.2, 1.0, "lower", 0.1, False),
    ],
)
def test_a_bar_holds_on_its_own_side(ratio, bar, better, spread, ok):
    assert meets(ratio, bar, better, spread) is ok


def test_only_a_bar_that_allows_for_the_spread_gets_it():
    values, base = [0.9, 1.1, 1.3], [1.0, 1.0, 1.0]
    assert make_row("c", "m", "u", values, better="lower", base=base, bar=1.0)["ok"] is False
    assert make_row("c", "m", "u", values, better="lower", base=base, bar=1.0, within_spread=True)["ok"] is True


def test_a_limit_is_a_bar_on_the_value():
    assert limit_row("idle", "cores_per_worker", "cores", [0.01, 0.015, 0.03], 0.02)["ok"] is True
    over = limit_row("idle", "cores_per_worker", "cores", [0.03], 0.02)
    assert over["ok"] is False
    assert over["ratio"] == 1.5
    assert failed([over, missing_row("c", "m", "u", "why", "lower")]) == [over]


def test_what_is_missing_says_why_and_is_not_judged():
    row = missing_row("bytewax", "m", "u", "it could not be installed", "higher")
    assert list(row) == KEYS
    assert row["value"] is None
    assert row["baseline"] == "it could not be installed"
    assert row["ok"] is None
