"""Lengths of time as users write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tailrace.durations import DurationError, duration_ms


@pytest.mark.parametrize(
    ("given", "ms"),
    [("10 minutes", 600_000), ("1 minute", 60_000), ("90s", 90_000), ("1 hour 30 min", 5_400_000),
     ("2 days", 172_800_000), ("250 ms", 250), ("1.5 Hours", 5_400_000), ("1 week, 1 day", 691_200_000), (5, 5000),
     (0.25, 250), (timedelta(minutes=2), 120_000)],
)  # fmt: skip
def test_a_length_of_time(given, ms):
    assert duration_ms(given, "it") == ms


@pytest.mark.parametrize(
    "given", ["", "ten minutes", "10", "10 moons", "10 minutes ago", "-1 s", 0, -1, True, None, float("nan"),
              float("inf"), timedelta(), 0.0001, []],
)  # fmt: skip
def test_what_is_none(given):
    with pytest.raises(DurationError, match="it must be a length of time of a millisecond at least; found"):
        duration_ms(given, "it")
