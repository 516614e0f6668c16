"""Histograms: percentiles within 3 % of the truth, and merging as good as counting together."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.metrics.histogram import Histogram

LATENCIES = st.lists(st.integers(0, 10**13), min_size=1, max_size=200)


def of(values):
    histogram = Histogram()
    histogram.add(values)
    return histogram


@given(LATENCIES, st.sampled_from([0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0]))
def test_percentiles_are_within_three_per_cent(values, share):
    ranked = sorted(values)
    exact = ranked[max(0, math.ceil(share * len(values)) - 1)]
    assert of(values).percentile(share) == pytest.approx(exact, rel=0.032, abs=0.5)


@given(LATENCIES)
def test_they_grow_with_the_share_and_end_at_the_largest(values):
    histogram = of(values)
    found = [histogram.percentile(share / 20) for share in range(21)]
    assert found == sorted(found)
    assert found[-1] <= max(values) == histogram.most


@given(LATENCIES, LATENCIES)
def test_merging_is_as_good_as_counting_together(one, other):
    merged, together = of(one), of(one + other)
    merged.merge(of(other))
    assert (merged.counts, merged.most, merged.total) == (together.counts, together.most, together.total)
    assert len(merged) == len(one) + len(other)
    assert merged.mean == pytest.approx(sum(one + other) / len(one + other))


@given(LATENCIES)
def test_it_survives_the_journey_to_the_coordinator(values):
    histogram = of(values)
    assert vars_of(Histogram(histogram.counts, histogram.most, histogram.total)) == vars_of(histogram)


def vars_of(histogram):
    return histogram.counts, histogram.most, histogram.total


def test_an_empty_one_is_zero_everywhere():
    empty = Histogram()
    assert (len(empty), empty.percentile(0.99), empty.mean, empty.most) == (0, 0.0, 0.0, 0)


def test_negative_values_count_as_zero():
    histogram = of([-5, -(10**12), -1])
    assert (len(histogram), histogram.percentile(0.5), histogram.mean, histogram.most) == (3, 0.0, 0.0, 0)


def test_it_stays_small_over_all_magnitudes():
    histogram = of([3**power for power in range(39)] + list(range(10_000)))
    assert len(histogram.counts) < 40 * 32


@given(st.integers(-10, 10**12), st.integers(1, 50))
def test_one_value_many_times(value, count):
    histogram = Histogram()
    histogram.add_many(value, count)
    assert vars_of(histogram) == vars_of(of([value] * count))
