"""Where time comes from: the real monotonic clock, and one that tests and simulations move by hand.

Every room that needs the time takes a Clock as an argument instead of asking the ``time`` module, so that the same code
runs live, under test and in a simulation. Monotonic times of two processes or hosts are never
compared; what travels with a time in it has the time of day.
"""

from __future__ import annotations

import time
from typing import Protocol

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


class Clock(Protocol):
    """A monotonic clock; its zero means nothing."""

    def now_ns(self) -> int:
        """Return the time in nanoseconds; never less than at an earlier call."""
        ...

    def wall_ms(self) -> int:
        """Return the time of day in milliseconds since 1970, as well as this machine knows it; it may go back."""
        ...


class SystemClock:
    """The machine's clocks."""

    #: The monotonic time of this machine in nanoseconds; asked for many times per tuple, so nothing stands in between.
    now_ns = staticmethod(time.monotonic_ns)

    def wall_ms(self) -> int:
        """Return the time of day in milliseconds since 1970."""
        return time.time_ns() // NS_PER_MS


class FakeClock:
    """A clock that stands still until it is told to move on."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return the time the clock was last moved to, in nanoseconds."""
        return self._now_ns

    def wall_ms(self) -> int:
        """Return the same in milliseconds: its day began with it."""
        return self._now_ns // NS_PER_MS

    def advance(self, by_ns: int) -> None:
        """Move on by so many nanoseconds; a monotonic clock does not go back."""
        if by_ns < 0:
            msg = f"a clock moves forward only, and was asked to move by {by_ns} ns"
            raise ValueError(msg)
        self._now_ns += by_ns
