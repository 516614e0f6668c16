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

from tailrace.batch import HEAD_PLACES, OFFSET_BITS, OFFSET_MAX, REPLAY_BITS, from_bytes, numbers, to_bytes
from tailrace.hot import by_partition, survey
from tailrace.state.snapshot import DeduplicatorSnapshot, GenerationSnapshot

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Mapping

    from tailrace.batch import Batch

    #: Turns what is remembered into bytes, and back with the lineages of the bundles that gave each.
    Encode = Callable[[list[Any]], bytes]
    Decode = Callable[[bytes], Iterable[tuple[array[int], Any]]]

GENERATION_BUNDLES = 16_384
#: Generations up to which a mark begins a new one; behind roots that stay open, further ones fill up first.
GENERATIONS_BY_MARKS_MAX = 16
#: What a source that never had to be restarted gives a root at first.
FIRST_INCARNATION = 1 << REPLAY_BITS


class _Generation:
    """Lineages let through in one stretch of time. Kept as they came until someone asks whether one is among them."""

    __slots__ = ("_columns", "_restored", "_seen", "newest", "outputs", "size")

    def __init__(self) -> None:
        self.size = 0
        self.newest: dict[int, int] = {}
        self.outputs: dict[int, Any] = {}
        #: Heads as they came, and lineages of a snapshot, until they are in the set.
        self._columns: list[array[int]] = []
        self._restored = numbers()
        self._seen: set[int] = set()

    @property
    def empty(self) -> bool:
        """Whether nothing was let through or remembered in it yet."""
        return not self.size and not self.outputs

    def reaches(self, marks: Mapping[int, int]) -> bool:
        """Whether a root at or above the marks is in it."""
        return any(newest >= marks.get(partition, 0) for partition, newest in self.newest.items())

    def snapshot(self, encode: Encode, *, replayed: bool) -> GenerationSnapshot:
        """Describe it as plain data; outputs of a batch, which many bundles share, once."""
        lineages = self._restored + numbers(self._seen)
        for heads in self._columns:
            lineages += heads[2::HEAD_PLACES]
        outputs = {id(each): each for each in self.outputs.values()}
        return GenerationSnapshot(
            dict(self.newest), to_bytes(lineages), replayed, encode(list(outputs.values())) if outputs else b""
        )

    def restore(self, snapshot: GenerationSnapshot, decode: Decode) -> None:
        """Know what a snapshot tells."""
        self._restored = from_bytes(snapshot.lineages)
        self.size = len(self._restored)
        self.newest = dict(snapshot.newest)
        for named, outputs in decode(snapshot.outputs) if snapshot.outputs else ():
            self.outputs.update(dict.fromkeys(named, outputs))

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
        if self._restored:
            self._seen.update(self._restored)
            self._restored = numbers()
        return self._seen


class Deduplicator:
    """Drops duplicates of one task; remembers its outputs where it is told them."""

    def __init__(self, first_incarnation: int = FIRST_INCARNATION) -> None:
        self.dropped = 0
        #: What a source gives a root at first: while nothing else has come, nothing is a duplicate.
        self.first_incarnation = first_incarnation
        self._generations = [_Generation()]
        self._marks: dict[int, int] = {}
        #: Per partition an offset and an incarnation: of roots from there on, older incarnations were cut another way.
        #: They are dropped, because a source that was restarted sends their roots again.
        self.floors: dict[int, tuple[int, int]] = {}
        #: The generations in which a replay came; without one, a first incarnation cannot be a duplicate.
        self._replayed: list[_Generation] = []

    def __len__(self) -> int:
        return sum(generation.size for generation in self._generations)

    def admit(self, batch: Batch) -> list[bool] | None:
        """Mark which bundles are new; None when all are, which is nearly always."""
        heads = batch.heads
        low, high, inc = survey(heads)
        if self._generations[-1].size >= GENERATION_BUNDLES:
            self._generations.append(_Generation())
        current = self._generations[-1]
        if inc != self.first_incarnation and current not in self._replayed:
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

    def snapshot(self, encode: Encode, marks: Mapping[int, int] | None = None) -> DeduplicatorSnapshot:
        """Describe what was let through and what is remembered of it, as plain data; it stays as it is.

        With ``marks`` only what is needed for roots at or above them, to the generation: nothing below is sent again.
        """
        above = marks or {}
        known = self._marks | {part: max(offset, self._marks.get(part, 0)) for part, offset in above.items()}
        return DeduplicatorSnapshot(
            known,
            dict(self.floors),
            [
                each.snapshot(encode, replayed=each in self._replayed)
                for each in self._generations
                if not each.empty and (marks is None or each.reaches(above))
            ],
        )

    def restore(self, snapshot: DeduplicatorSnapshot, decode: Decode) -> None:
        """Know what a snapshot tells, and nothing else."""
        self._marks = dict(snapshot.marks)
        self.floors = dict(snapshot.floors)
        self._generations = []
        self._replayed = []
        for each in snapshot.generations:
            generation = _Generation()
            generation.restore(each, decode)
            self._generations.append(generation)
            if each.replayed:
                self._replayed.append(generation)
        self._generations.append(_Generation())

    def expect_replays(self) -> None:
        """All that is known now may come again, under what counts as a first incarnation from now on."""
        self._replayed = [generation for generation in self._generations if not generation.empty]

    def low_water(self, partition: int, offset: int) -> None:
        """Everything of the partition below the offset is complete: forget it."""
        if offset <= self._marks.get(partition, 0):
            return
        self._marks[partition] = offset
        kept = [generation for generation in self._generations if generation.reaches(self._marks)]
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
