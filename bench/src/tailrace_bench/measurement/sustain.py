"""Searches the highest rate that an arm sustains: offered open loop, it keeps up and its tail stays within a limit.

Pure: the caller measures one rate at a time and says whether it held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_GROWTH = 2.0


def sustainable_rate(
    holds: Callable[[float], bool], first_per_s: float, *, most_per_s: float, precision: float = 0.1
) -> float:
    """Double the rate until it no longer holds, then halve the gap until it is within ``precision`` of the answer.

    0 means that not even the first rate, halved six times, held.
    """
    low, high = 0.0, first_per_s
    while high < most_per_s and holds(high):
        low, high = high, high * _GROWTH
    if high >= most_per_s:
        if holds(most_per_s):
            return most_per_s
        high = most_per_s
    floor = first_per_s / 64
    while high - low > max(precision * high, floor):
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
