"""The unit that moves between tasks: a batch of bundles, kept as columns.

A *bundle* is what one input gave to one destination: its values share root, incarnation and lineage, so that they are
tracked and deduplicated together at the price of one. Columns, not objects per tuple, keep the hot path in C loops.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

#: A root id is its partition's number over the offset within the partition.
OFFSET_BITS = 47
OFFSET_MAX = (1 << OFFSET_BITS) - 1
PARTITIONS_MAX = 1 << 16
#: An incarnation is the source task's attempt over the number of the replay.
REPLAY_BITS = 8

_M64 = (1 << 64) - 1


def mix(lineage: int, tag: int) -> int:
    """Derive a child's 64-bit lineage; ``tag`` says which way it went. Deterministic: replays meet themselves."""
    x = ((lineage ^ tag) * 0x9E3779B97F4A7C15) & _M64
    return x ^ (x >> 29)


def root_id(partition: int, offset: int) -> int:
    """Make the id of a root tuple: stable over restarts, ordered by offset within a partition."""
    return partition << OFFSET_BITS | offset


class Batch:
    """Bundles of one channel. ``sizes`` is None when each bundle holds one value; ``roots`` is empty when untracked."""

    __slots__ = ("incs", "lineages", "roots", "sizes", "values")

    def __init__(
        self, values: list[Any], sizes: list[int] | None, roots: list[int], incs: list[int], lineages: list[int]
    ) -> None:
        self.values = values
        self.sizes = sizes
        self.roots = roots
        self.incs = incs
        self.lineages = lineages

    def __len__(self) -> int:
        return len(self.values)

    @property
    def bundles(self) -> int:
        """How many bundles; in an untracked batch each value stands for itself."""
        return len(self.lineages) or len(self.values)

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
            self.roots[first:last],
            self.incs[first:last],
            self.lineages[first:last],
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
        return Batch(
            values,
            sizes,
            [self.roots[i] for i in picked],
            [self.incs[i] for i in picked],
            [self.lineages[i] for i in picked],
        )
