"""Latencies between two looks at a query."""

from __future__ import annotations

import pytest

from tailrace.coordinator.reporting.latency import since
from tailrace.metrics.histogram import Histogram


def histogram(*values_ms: float) -> Histogram:
    made = Histogram()
    made.add([int(value * 1e6) for value in values_ms])
    return made


def test_only_what_came_between_two_looks_counts():
    before, now = histogram(1.0, 2.0), histogram(1.0, 2.0)
    now.add([5_000_000, 5_000_000])
    between = since(before, now)
    assert len(between) == 2
    assert between.mean == pytest.approx(5e6)
