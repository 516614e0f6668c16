"""Partial key: a key's tuples go to either of two tasks, so that a frequent key does not fill one task alone.

The original rule sends each tuple to the less loaded of its key's two tasks. Here a bit of the tuple's lineage chooses,
because two incarnations of a tuple have the same lineage and so meet at the same guard, which drops one; for untracked
streams, where nothing is replayed, each key alternates. Either way a key's tuples are halved, which is what the choice
by load tends to for the keys that matter.

State is then spread over two tasks: what reads it needs a merge (``topology.split``). When it loses: with many keys of
like frequency ``fields`` is as even and needs no merge; a key with over 2/n of the traffic fills two tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.batch import mix
from tailrace.topology.keys import keys_of

from .fields import CACHED_KEYS_MAX, stable_hash

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.batch import Batch

_CHOICE = 0xA0761D6478BD642F
#: The bits of a mixed lineage above this one are well stirred.
_STIRRED = 33


class Pairs(dict[Any, tuple[int, int]]):
    """Key to its two tasks, filled in as keys are met."""

    def __init__(self, tasks: int) -> None:
        super().__init__()
        self._tasks = tasks

    def __missing__(self, key: Any) -> tuple[int, int]:
        if len(self) >= CACHED_KEYS_MAX:
            self.clear()
        found = self[key] = pair_of(key, self._tasks)
        return found


def pair_of(key: Any, tasks: int) -> tuple[int, int]:
    """The two tasks of a key, alike in every process; different ones wherever there are two."""
    hashed = stable_hash(key)
    first = mix(hashed, _CHOICE) % tasks
    if tasks == 1:
        return first, first
    second = (first + 1 + mix(hashed, ~_CHOICE & ((1 << 64) - 1)) % (tasks - 1)) % tasks
    return first, second


class PartialKey:
    """Route by ``key`` to one of two tasks; ``key`` is None when the values are the keys themselves."""

    several = False
    unwraps = False

    def __init__(self, key: Callable[[Any], Any] | None, tasks: int) -> None:
        self._key = key
        self._pairs = Pairs(tasks)
        self._turns: dict[Any, int] = {}

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Pick one of the key's two tasks by a bit of lineage, or in turn where there is none."""
        keys = values if self._key is None else keys_of(self._key, values)
        pairs = self._pairs
        if not origin.heads:
            return [pairs[key][self._turn(key)] for key in keys]
        bits = []
        lineages = origin.lineages
        for lineage, size in zip(lineages, origin.sizes or [1] * len(lineages), strict=True):
            bits += [mix(lineage, _CHOICE + index) >> _STIRRED & 1 for index in range(size)]
        return [pairs[key][bit] for key, bit in zip(keys, bits, strict=True)]

    def _turn(self, key: Any) -> int:
        if len(self._turns) >= CACHED_KEYS_MAX:
            self._turns.clear()
        turn = self._turns[key] = 1 - self._turns.get(key, 1)
        return turn
