"""Fields: tuples of equal key to the same task, by way of key groups.

A key's group is a hash that every process computes alike and that never changes; which task has a group is a table, so
that groups can move between tasks without touching the rest. The hash mixes, so that few short keys spread as if they
were dealt at random (decision 027). Loses when one key carries much of the traffic, and with fewer keys than tasks.
"""

from __future__ import annotations

import dataclasses
import numbers
import pickle
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tailrace.hot import look_up
from tailrace.topology.keys import keys_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.batch import Batch

CACHED_KEYS_MAX = 65_536
#: Copied for each key, which is quicker than making one. The name sets the hash apart from what others make of the same
#: keys with BLAKE2b: an input that was split by it spreads too.
_HASH = blake2b(digest_size=8, person=b"tailrace", usedforsecurity=False)
#: What Python hashes -1 to, because -1 is how its C code says that a hash failed; -2 hashes to the same.
_HASH_OF_MINUS_ONE = -2


def stable_hash(key: Any) -> int:
    """Hash a key to 64 bits, alike in every process; keys that are equal in Python (1, 1.0, True) hash alike.

    BLAKE2b over the key's bytes: every bit of the hash hangs on every bit of the key, however short it is. Keys are met
    once per router and then looked up, so it may take its half a microsecond.
    """
    hashed = _HASH.copy()
    hashed.update(_canonical(key))
    return int.from_bytes(hashed.digest(), "little")


def _canonical(key: Any) -> bytes:
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return b"b" + key
    if isinstance(key, numbers.Number) and key == key:  # noqa: PLR0124 - but for NaN, whose hash is its address
        return b"n%d" % _number_hash(key)
    if isinstance(key, tuple):
        return b"(" + b",".join(_canonical(part) for part in key) + b")"
    if isinstance(key, frozenset):
        return b"{" + b",".join(sorted(_canonical(part) for part in key)) + b"}"
    if dataclasses.is_dataclass(key):
        return b"d" + _canonical(tuple(getattr(key, field.name) for field in dataclasses.fields(key) if field.compare))
    return pickle.dumps(key, protocol=4)


def _number_hash(number: Any) -> int:
    """Python's own, alike in every process and for every type of number; but -1 is told from -2."""
    hashed = hash(number)
    return -1 if hashed == _HASH_OF_MINUS_ONE and number != _HASH_OF_MINUS_ONE else hashed


def group_count(tasks: int, key_groups: int) -> int:
    """How many key groups a stage has: as many as are set, but one for each task at least."""
    return max(key_groups, tasks)


def even_groups(tasks: int, key_groups: int) -> list[int]:
    """The task of each key group before any has moved: stretches of equal length."""
    count = group_count(tasks, key_groups)
    return [group * tasks // count for group in range(count)]


def group_of(key: Any, key_groups: int) -> int:
    """The group of a key, alike in every process; it never changes."""
    return stable_hash(key) % key_groups


class GroupIndex(dict[Any, int]):
    """Key to group, filled in as keys are met, so many at most."""

    def __init__(self, key_groups: int) -> None:
        super().__init__()
        self._key_groups = key_groups

    def __missing__(self, key: Any) -> int:
        if len(self) >= CACHED_KEYS_MAX:
            self.clear()
        group = self[key] = group_of(key, self._key_groups)
        return group


class _Table(dict[Any, int]):
    """Key to task, filled in as keys are met; a plain dict look-up on the hot path."""

    def __init__(self, groups: Sequence[int]) -> None:
        super().__init__()
        self._groups = groups

    def __missing__(self, key: Any) -> int:
        if len(self) >= CACHED_KEYS_MAX:
            self.clear()
        task = self[key] = self._groups[group_of(key, len(self._groups))]
        return task


class Fields:
    """Route by ``key``, which is None when the values are the keys themselves.

    ``parts`` tells the part of each key group where groups have moved: a task, or one beyond; see ``key_table``.
    """

    several = False
    unwraps = False

    def __init__(
        self, key: Callable[[Any], Any] | None, tasks: int, key_groups: int, parts: Sequence[int] | None = None
    ) -> None:
        self._key = key
        self._table = _Table(even_groups(tasks, key_groups) if parts is None else parts)

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Look every key's task up."""
        del origin
        return look_up(self._table, values if self._key is None else keys_of(self._key, values))
