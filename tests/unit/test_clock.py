"""The clocks keep the one promise a monotonic clock makes."""

from __future__ import annotations

import pytest

from tailrace.clock import FakeClock, SystemClock


def test_the_system_clock_never_goes_back():
    clock = SystemClock()
    times = [clock.now_ns() for _ in range(1000)]
    assert times == sorted(times)


def test_a_fake_clock_stands_still_until_it_is_moved():
    clock = FakeClock(start_ns=3)
    assert (clock.now_ns(), clock.now_ns()) == (3, 3)
    clock.advance(4)
    assert clock.now_ns() == 7
    with pytest.raises(ValueError, match="forward only"):
        clock.advance(-1)
