"""The unit that moves between tasks: a batch of bundles, kept as columns.

A *bundle* is what one input gave to one destination: its values share root, incarnation and lineage, so that they are
tracked and deduplicated together at the price of one. Columns, not objects per tuple, keep the hot path in C loops.

A bundle's *head* is those three numbers in a row in an ``array('Q')``. Its lineage is a name and a share in one: the
XOR of all lineages that a root gave rise to is the root's own, because what a bundle gives takes its lineage over. So
an ack is a head, and acknowledging a batch is copying its heads.
"""

from __future__ import annotations

import sys
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A root id is its partition's number over the offset within the partition.
OFFSET_BITS = 47
OFFSET_MAX = (1 << OFFSET_BITS) - 1
PARTITIONS_MAX = 1 << 16
#: An incarnation is the source task's attempt over the number of the replay. With a replay each millisecond the number
#: lasts for weeks, and replays of one root become rarer: were it to wrap, a replay would pass for a first incarnation.
REPLAY_BITS = 32
REPLAY_MAX = (1 << REPLAY_BITS) - 1
#: Numbers in a head: root, incarnation, lineage.
HEAD_PLACES = 3

#: What the lineage of a root is derived with.
_SALT = 0x2545F4914F6CDD1D
_M64 = (1 << 64) - 1
_BIG_ENDIAN = sys.byteorder == "big"


def numbers(items: Iterable[int] = ()) -> array[int]:
    """Make a column of unsigned 64-bit numbers."""
    return array("Q", items)


def to_bytes(column: array[int]) -> bytes:
    """Encode a column of numbers, heads for instance: little-endian, in a row."""
    if _BIG_ENDIAN:
        column = column[:]
        column.byteswap()
    return column.tobytes()


def from_bytes(data: bytes | memoryview) -> array[int]:
    """Decode what ``to_bytes`` made."""
    column = numbers()
    column.frombytes(data)
    if _BIG_ENDIAN:
        column.byteswap()
    return column


def mix(lineage: int, tag: int) -> int:
    """Derive a child's 64-bit lineage; ``tag`` says which way it went. Deterministic: replays meet themselves."""
    x = ((lineage ^ tag) * 0x9E3779B97F4A7C15) & _M64
    return x ^ (x >> 29)


def root_id(partition: int, offset: int) -> int:
    """Make the id of a root tuple: stable over restarts, ordered by offset within a partition."""
    return partition << OFFSET_BITS | offset


def root_lineage(root: int) -> int:
    """Name a root: its share in itself."""
    return mix(root, _SALT)


class Batch:
    """Bundles of one channel. ``sizes`` is None when each bundle holds one value; ``heads`` is empty when untracked."""

    __slots__ = ("heads", "sizes", "values")

    def __init__(self, values: list[Any], sizes: list[int] | None, heads: array[int]) -> None:
        self.values = values
        self.sizes = sizes
        self.heads = heads

    def __len__(self) -> int:
        return len(self.values)

    @property
    def bundles(self) -> int:
        """How many bundles; in an untracked batch each value stands for itself."""
        return len(self.heads) // HEAD_PLACES or len(self.values)

    @property
    def roots(self) -> array[int]:
        """The root of each bundle."""
        return self.heads[0::HEAD_PLACES]

    @property
    def incs(self) -> array[int]:
        """The incarnation of each bundle's root."""
        return self.heads[1::HEAD_PLACES]

    @property
    def lineages(self) -> array[int]:
        """The lineage of each bundle."""
        return self.heads[2::HEAD_PLACES]

    def append(self, other: Batch) -> None:
        """Put another batch's bundles behind one's own; both are tracked, or neither is."""
        if self.heads and (self.sizes is not None or other.sizes is not None):
            self.sizes = [1] * len(self.values) if self.sizes is None else self.sizes
            self.sizes += [1] * len(other.values) if other.sizes is None else other.sizes
        self.values += other.values
        self.heads += other.heads

    def split(self, values_max: int) -> tuple[Batch, Batch | None]:
        """Cut after about ``values_max`` values, at a bundle's end; the second part is None when nothing is left."""
        if len(self.values) <= values_max:
            return self, None
        if self.sizes is None:
            bundles = values = values_max
        else:
            bundles = values = 0
            for size in self.sizes:
                if bundles and values + size > values_max:
                    break
                bundles += 1
                values += size
            if bundles == len(self.sizes):
                return self, None
        return self._part(0, bundles, 0, values), self._part(bundles, None, values, None)

    def _part(self, first: int, last: int | None, begin: int, end: int | None) -> Batch:
        return Batch(
            self.values[begin:end],
            None if self.sizes is None else self.sizes[first:last],
            self.heads[first * HEAD_PLACES : None if last is None else last * HEAD_PLACES],
        )

    def select(self, keep: list[bool]) -> Batch:
        """Keep only the bundles marked true."""
        picked = [i for i, wanted in enumerate(keep) if wanted]
        if self.sizes is None:
            values, sizes = [self.values[i] for i in picked], None
        else:
            ends = list(accumulate(self.sizes, initial=0))
            values = [value for i in picked for value in self.values[ends[i] : ends[i + 1]]]
            sizes = [self.sizes[i] for i in picked]
        return Batch(values, sizes, pick_heads(self.heads, picked))


def pick_heads(heads: array[int], picked: Iterable[int]) -> array[int]:
    """Take some of the heads."""
    return numbers(number for i in picked for number in heads[i * HEAD_PLACES : (i + 1) * HEAD_PLACES])
