"""Counts how much each key group of an edge gets, so that groups can be moved by it.

Around the rule of a keyed edge where the rebalancing loop is on. One batch in so many is counted, which costs the
others nothing but a call; shares come out right because which batch is counted hangs on nothing but its number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.topology.keys import keys_of

from .fields import CACHED_KEYS_MAX, group_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.batch import Batch

    from .base import Router

#: A prime, so that no regular turn of batches is always counted or never.
COUNTED_EVERY = 7


class Sampled:
    """A keyed rule whose groups are counted; ``key`` is None when the values are the keys themselves."""

    several = False
    unwraps = False

    def __init__(self, rule: Router, key: Callable[[Any], Any] | None, key_groups: int) -> None:
        self._rule = rule
        self._key = key
        self._key_groups = key_groups
        self._group: dict[Any, int] = {}
        self._counts: dict[int, int] = {}
        self._batches = 0

    def choose(self, values: list[Any], origin: Batch) -> list[Any]:
        """Do as the rule does."""
        self._batches += 1
        if self._batches % COUNTED_EVERY == 0:
            self._count(values)
        return self._rule.choose(values, origin)

    def _count(self, values: list[Any]) -> None:
        known, counts = self._group, self._counts
        if len(known) >= CACHED_KEYS_MAX:
            known.clear()
        for key in values if self._key is None else keys_of(self._key, values):
            group = known.get(key)
            if group is None:
                group = known[key] = group_of(key, self._key_groups)
            counts[group] = counts.get(group, 0) + 1

    def counted(self) -> dict[int, int]:
        """Tuples per group since this was last asked, in the batches that were counted."""
        found, self._counts = self._counts, {}
        return found
