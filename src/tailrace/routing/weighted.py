"""Weighted: shares of traffic turned into a fixed order of tasks that is walked over and over.

The balancing policies decide shares on the coordinator; each sending task walks the same
ring from its own start, so that equal shares always give equal routes. The values of a tracked bundle stay together: a
replay has to be cut into the same pieces, or guards behind this edge would not know it again.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.batch import Batch

#: Places per task in a ring: the grain of a share is one in (tasks x this), 1 % and finer from two tasks on.
PLACES_PER_TASK = 64
PLACES_MAX = 65_536


def places(shares: Sequence[float], total: int) -> list[int]:
    """Give each task its number of places, in all exactly ``total``: largest remainder, lowest index first."""
    whole = sum(shares)
    exact = [share / whole * total for share in shares]
    found = [int(each) for each in exact]
    by_remainder = sorted(range(len(shares)), key=lambda task: (found[task] - exact[task], task))
    for task in by_remainder[: total - sum(found)]:
        found[task] += 1
    return found


def ring_of(shares: Sequence[float]) -> list[int]:
    """Order the tasks so that each comes as often as its share says and as evenly spaced as can be."""
    if len(set(shares)) == 1:
        return list(range(len(shares)))
    if len({share for share in shares if share}) == 1:  # some get nothing, the others alike
        return [task for task, share in enumerate(shares) if share]
    total = min(PLACES_MAX, PLACES_PER_TASK * len(shares))
    spots = [
        ((turn + 0.5) / count, task)
        for task, count in enumerate(places(shares, total))
        for turn in range(count)
    ]  # fmt: skip
    return [task for _, task in sorted(spots)]


class Weighted:
    """Walks the ring of the present shares."""

    several = False
    unwraps = False

    def __init__(self, shares: Sequence[float], start: int = 0) -> None:
        self._start = start
        self.reweigh(shares)

    def reweigh(self, shares: Sequence[float]) -> None:
        """Take new shares; the walk begins again at this sender's place."""
        self.weights = tuple(shares)
        ring = ring_of(shares)
        self._length = len(ring)
        self._twice = ring * 2
        self._at = self._start * self._length // len(shares) % self._length

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Deal the bundles out along the ring; where nothing is tracked, the values."""
        if origin.heads and origin.sizes is not None:
            return together(self._deal(len(origin.sizes)), origin.sizes)
        return self._deal(len(values))

    def _deal(self, count: int) -> list[int]:
        at, length = self._at, self._length
        self._at = (at + count) % length
        if count <= length:
            return self._twice[at : at + count]
        ring = self._twice[at : at + length]
        return (ring * (count // length + 1))[:count]


def together(dests: list[int], sizes: list[int]) -> list[int]:
    """Give every value of a bundle the bundle's task."""
    return list(chain.from_iterable(map(repeat, dests, sizes)))
