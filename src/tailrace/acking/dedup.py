"""The guard in front of state and sinks: a bundle is let through once, however often its root is sent again.

A bundle's lineage is a 64-bit name that every incarnation of its root arrives at, so a set of lineages is all it takes.
Sets are kept in generations, and a generation is forgotten once the sources' low-water marks have passed all its roots:
nothing below a mark is ever sent again, and what still arrives from below it is dropped. The outputs of a state-keeping
task are remembered as long, because a replay that finds its input already applied must still repeat what followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.batch import OFFSET_BITS, OFFSET_MAX

if TYPE_CHECKING:
    from tailrace.batch import Batch

GENERATION_BUNDLES = 16_384


class _Generation:
    __slots__ = ("newest", "outputs", "seen")

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.newest: dict[int, int] = {}
        self.outputs: dict[int, Any] = {}

    def note(self, partition: int, offset: int) -> None:
        """Remember the newest root of a partition; partition 0 is for what hangs on no root and holds nothing back."""
        if partition:
            self.newest[partition] = max(self.newest.get(partition, 0), offset)


class Guard:
    """Drops duplicates of one task; remembers its outputs where it is told them."""

    def __init__(self) -> None:
        self.dropped = 0
        self._generations = [_Generation()]
        self._marks: dict[int, int] = {}

    def __len__(self) -> int:
        return sum(len(generation.seen) for generation in self._generations)

    def admit(self, batch: Batch) -> list[bool] | None:
        """Mark which bundles are new; None when all are, which is nearly always."""
        lineages, roots = batch.lineages, batch.roots
        self._rotate()
        current = self._generations[-1]
        low, high = min(roots), max(roots)
        partition = low >> OFFSET_BITS
        if (
            partition == high >> OFFSET_BITS
            and (low & OFFSET_MAX) >= self._marks.get(partition, 0)
            and all(generation.seen.isdisjoint(lineages) for generation in self._generations)
        ):
            known = len(current.seen)
            current.seen.update(lineages)
            if len(current.seen) == known + len(lineages):
                current.note(partition, high & OFFSET_MAX)
                return None
            for lineage in lineages:
                current.seen.discard(lineage)
        return self._admit_singly(batch)

    def _admit_singly(self, batch: Batch) -> list[bool] | None:
        current = self._generations[-1]
        keep = []
        for root, lineage in zip(batch.roots, batch.lineages, strict=True):
            partition, offset = root >> OFFSET_BITS, root & OFFSET_MAX
            fresh = offset >= self._marks.get(partition, 0) and not any(
                lineage in generation.seen for generation in self._generations
            )
            if fresh:
                current.seen.add(lineage)
                current.note(partition, offset)
            keep.append(fresh)
        self.dropped += keep.count(False)
        return None if all(keep) else keep

    def _rotate(self) -> None:
        if len(self._generations[-1].seen) >= GENERATION_BUNDLES:
            self._generations.append(_Generation())

    def remember(self, lineages: list[int], outputs: Any) -> None:
        """Keep what these bundles gave, to be repeated if they come again."""
        self._generations[-1].outputs.update(dict.fromkeys(lineages, outputs))

    def recall(self, lineage: int) -> Any | None:
        """What a bundle gave when it was let through."""
        for generation in self._generations:
            outputs = generation.outputs.get(lineage)
            if outputs is not None:
                return outputs
        return None

    def low_water(self, partition: int, offset: int) -> None:
        """Everything of the partition below the offset is complete: forget it."""
        if offset <= self._marks.get(partition, 0):
            return
        self._marks[partition] = offset
        if not self._generations[-1].seen:
            return
        kept = [
            generation
            for generation in self._generations
            if any(newest >= self._marks.get(part, 0) for part, newest in generation.newest.items())
        ]
        if not kept or kept[-1] is not self._generations[-1]:
            kept.append(_Generation())
        self._generations = kept
