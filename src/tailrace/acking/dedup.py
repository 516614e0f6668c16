"""The guard in front of state and sinks: a bundle is let through once, however often its root is sent again.

A bundle's lineage is a 64-bit name that every incarnation of its root arrives at, so a set of lineages is all it takes.
Sets are kept in generations, and a generation is forgotten once the sources' low-water marks have passed all its roots:
nothing below a mark is ever sent again, and what still arrives from below it is dropped. A mark also begins a new
generation, so that what is kept covers a few marks' time however little comes: all of it travels when a task moves. The
outputs of a state-keeping task are remembered as long, because a replay that finds its input already applied must still
repeat what followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.batch import HEAD_PLACES, OFFSET_BITS, OFFSET_MAX, REPLAY_BITS
from tailrace.hot import by_partition, survey

if TYPE_CHECKING:
    from array import array

    from tailrace.batch import Batch

GENERATION_BUNDLES = 16_384
#: Generations up to which a mark begins a new one; behind roots that stay open, further ones fill up first.
GENERATIONS_BY_MARKS_MAX = 16
#: What a source that never had to be restarted gives a root at first.
FIRST_INCARNATION = 1 << REPLAY_BITS


class _Generation:
    """Lineages let through in one stretch of time. Kept as they came until someone asks whether one is among them."""

    __slots__ = ("_columns", "_seen", "newest", "outputs", "size")

    def __init__(self) -> None:
        self.size = 0
        self.newest: dict[int, int] = {}
        self.outputs: dict[int, Any] = {}
        self._columns: list[array[int]] = []
        self._seen: set[int] = set()

    def __getstate__(self) -> tuple[Any, ...]:
        """Travel with the task; a compiled class does not do so by itself."""
        return self.size, self.newest, self.outputs, self._columns, self._seen

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.size, self.newest, self.outputs, self._columns, self._seen = state

    @property
    def empty(self) -> bool:
        """Whether nothing was let through or remembered in it yet."""
        return not self.size and not self.outputs

    def add(self, heads: array[int]) -> None:
        self._columns.append(heads)
        self.size += len(heads) // HEAD_PLACES

    def note(self, root: int) -> None:
        """Remember the newest root of a partition; partition 0 is for what hangs on no root and holds nothing back."""
        partition, offset = root >> OFFSET_BITS, root & OFFSET_MAX
        if partition:
            self.newest[partition] = max(self.newest.get(partition, 0), offset)

    @property
    def seen(self) -> set[int]:
        for heads in self._columns:
            self._seen.update(heads[2::HEAD_PLACES])
        self._columns.clear()
        return self._seen


class Deduplicator:
    """Drops duplicates of one task; remembers its outputs where it is told them."""

    def __init__(self) -> None:
        self.dropped = 0
        self._generations = [_Generation()]
        self._marks: dict[int, int] = {}
        #: Per partition an offset and an incarnation: of roots from there on, older incarnations were cut another way.
        #: They are dropped, because a source that was restarted sends their roots again.
        self.floors: dict[int, tuple[int, int]] = {}
        #: The generations in which a replay came; without one, a first incarnation cannot be a duplicate.
        self._replayed: list[_Generation] = []

    def __getstate__(self) -> tuple[Any, ...]:
        """Travel with the task."""
        return self.dropped, self._generations, self._marks, self.floors, self._replayed

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dropped, self._generations, self._marks, self.floors, self._replayed = state

    def __len__(self) -> int:
        return sum(generation.size for generation in self._generations)

    def admit(self, batch: Batch) -> list[bool] | None:
        """Mark which bundles are new; None when all are, which is nearly always."""
        heads = batch.heads
        low, high, inc = survey(heads)
        if self._generations[-1].size >= GENERATION_BUNDLES:
            self._generations.append(_Generation())
        current = self._generations[-1]
        if inc != FIRST_INCARNATION and current not in self._replayed:
            self._replayed.append(current)
        if not self._replayed and not self.floors:
            one = low >> OFFSET_BITS == high >> OFFSET_BITS
            spans = [(low, high)] if one else _spans(heads)
            # What the slower of two incarnations brings after a mark has passed it is a duplicate all the same.
            if all((first & OFFSET_MAX) >= self._marks.get(first >> OFFSET_BITS, 0) for first, _ in spans):
                current.add(heads)
                for _, newest in spans:
                    current.note(newest)
                return None
        return self._admit_singly(batch, current)

    def _admit_singly(self, batch: Batch, current: _Generation) -> list[bool] | None:
        keep = []
        known = [generation.seen for generation in self._generations]
        for root, inc, lineage in zip(batch.roots, batch.incs, batch.lineages, strict=True):
            partition, offset = root >> OFFSET_BITS, root & OFFSET_MAX
            since, floor = self.floors.get(partition, (0, 0))
            if inc < floor and offset >= since:
                keep.append(False)
                continue
            fresh = offset >= self._marks.get(partition, 0) and not any(lineage in seen for seen in known)
            if fresh:
                known[-1].add(lineage)
                current.note(root)
            keep.append(fresh)
        current.size += keep.count(True)
        self.dropped += keep.count(False)
        return None if all(keep) else keep

    def newest(self) -> dict[int, int]:
        """Per partition the offset behind the newest root of which something was let through and is remembered."""
        found: dict[int, int] = {}
        for generation in self._generations:
            for partition, offset in generation.newest.items():
                found[partition] = max(found.get(partition, 0), offset + 1)
        return found

    def remember(self, batch: Batch, outputs: Any) -> None:
        """Keep what these bundles gave, to be repeated if they come again.

        They may have been let through in an older generation; the newest takes their roots over with the outputs.
        """
        current = self._generations[-1]
        current.outputs.update(dict.fromkeys(batch.lineages, outputs))
        for _, newest in _spans(batch.heads):
            current.note(newest)

    def recall(self, lineage: int) -> Any | None:
        """What a bundle gave when it was let through."""
        for generation in self._generations:
            outputs = generation.outputs.get(lineage)
            if outputs is not None:
                return outputs
        return None

    def absorb(self, other: Deduplicator) -> None:
        """Know as well what another guard has let through: some of what it stood in front of comes here from now on."""
        self._generations[:0] = [each for each in other._generations if each.size or each.outputs]
        self._replayed += [each for each in other._replayed if each in self._generations]
        for partition, offset in other._marks.items():
            self.low_water(partition, offset)

    def remembered(self) -> list[Any]:
        """All outputs that are kept, each once."""
        return list({id(each): each for part in self._generations for each in part.outputs.values()}.values())

    def low_water(self, partition: int, offset: int) -> None:
        """Everything of the partition below the offset is complete: forget it."""
        if offset <= self._marks.get(partition, 0):
            return
        self._marks[partition] = offset
        kept = [
            generation
            for generation in self._generations
            if any(newest >= self._marks.get(part, 0) for part, newest in generation.newest.items())
        ]
        current = self._generations[-1]
        if current.empty:
            kept.append(current)
        elif len(kept) < GENERATIONS_BY_MARKS_MAX or kept[-1] is not current:
            kept.append(_Generation())
        self._generations = kept
        self._replayed = [generation for generation in self._replayed if generation in kept]


def _spans(heads: array[int]) -> list[tuple[int, int]]:
    """Tell the lowest and the highest root of each partition; often there is one."""
    low, high, _ = survey(heads)
    if low >> OFFSET_BITS == high >> OFFSET_BITS:
        return [(low, high)]
    return [survey(part)[:2] for part in by_partition(heads).values()]
