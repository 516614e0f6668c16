"""Algorithm 1 with its bounds: enough samples, open roots, the flush interval, the budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.acking.adaptive_timeout import AdaptiveTimeout, ReplayBudget, TimeoutSettings, algorithm_1

MS = 1_000_000


def percentiles(**given_ms):
    table = {0.90: given_ms["p90"], 0.95: given_ms["p95"], 0.99: given_ms["p99"], 0.999: given_ms["p999"]}
    return lambda share: table[share]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"p90": 10, "p95": 15, "p99": 21, "p999": 90}, 10),
        ({"p90": 10, "p95": 15, "p99": 20, "p999": 31}, 15),
        ({"p90": 10, "p95": 15, "p99": 20, "p999": 30}, 30),
    ],
)
def test_algorithm_1(found, expected):
    assert algorithm_1(percentiles(**found)) == expected


def test_it_waits_for_a_thousand_samples_over_as_many_periods_as_that_takes():
    timeout = AdaptiveTimeout()
    for _ in range(3):
        timeout.note([5 * MS] * 300)
        assert timeout.adjust([]) == timeout.settings.first_ns
    timeout.note([5 * MS] * 300)
    assert timeout.adjust([]) == pytest.approx(5 * MS, rel=0.05)


def test_old_periods_are_forgotten_once_newer_ones_suffice():
    timeout = AdaptiveTimeout()
    timeout.note([50 * MS] * 2000)
    assert timeout.adjust([]) == pytest.approx(50 * MS, rel=0.05)
    timeout.note([5 * MS] * 2000)
    assert timeout.adjust([]) == pytest.approx(5 * MS, rel=0.05)


def test_open_roots_count_as_at_least_their_age():
    timeout = AdaptiveTimeout()
    timeout.note([5 * MS] * 1000)
    assert timeout.adjust([80 * MS] * 200) == pytest.approx(80 * MS, rel=0.05)


def test_it_is_never_below_twice_the_flush_interval():
    timeout = AdaptiveTimeout(TimeoutSettings(flush_ns=3 * MS))
    timeout.note([MS // 10] * 1000)
    assert timeout.adjust([]) == 6 * MS


def test_it_is_lifted_to_where_no_more_than_the_budget_is_overdue():
    """A long tail asks for p90, but a tenth of all roots would be three times what may be replayed."""
    latencies = [MS * (10 + at % 10) for at in range(9500)] + [100 * MS] * 250 + [200 * MS] * 250
    timeout = AdaptiveTimeout()
    timeout.note(latencies)
    found = timeout.adjust([])
    assert sum(latency > found * 1.04 for latency in latencies) <= 0.03 * len(latencies)
    assert found > 90 * MS


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), max_size=60))
def test_the_budget_is_never_overdrawn(steps):
    budget = ReplayBudget()
    for emitted, wanted in steps:
        budget.earn(emitted)
        assert 0 <= budget.take(wanted) <= wanted
        assert budget.replayed <= 0.03 * budget.emitted


def test_what_is_saved_up_is_bounded():
    budget = ReplayBudget(TimeoutSettings(burst=10))
    budget.earn(1_000_000)
    assert budget.take(100) == 10
    assert budget.take(1) == 0
