"""What the driver keeps of a table while a query runs: ranges that tasks have written, and which of them count.

A task that was lost may have written rows whose roots were not acknowledged yet; its successor writes them again. Both
name the same origins, so the repeats are found here, before the entry is written, and only after such a loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from .errors import SpoolError
from .spool import Range, Segment, Spool, log_state

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Ranges of a task that are remembered beyond their commit, to tell what its successor repeats.
REMEMBERED_MAX = 4096


class WrittenRange(NamedTuple):
    """A range, the task that wrote it and which opening of the task's sink that was."""

    task: int
    opening: str
    range: Range


class UncommittedRanges:
    """The uncommitted part of one table."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self.next, self.epochs = log_state(spool)
        self.rows = 0
        self._pending: list[WrittenRange] = []
        self._before: dict[int, list[WrittenRange]] = {}

    def add(self, written: WrittenRange) -> None:
        """Take in what a task wrote."""
        self._pending.append(written)

    @property
    def waiting(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._pending)

    def commit(self, epoch: str | None, *, at_rest: bool) -> None:
        """Write an entry. ``at_rest``: nothing is under way, so that nothing of before can be repeated."""
        if epoch is not None and epoch in self.epochs:
            self.drop()  # a batch that was run again after its commit: its rows are there
            return
        ranges = self._once()
        if ranges or epoch is not None:
            self._spool.append(self.next, epoch, ranges)
            self.next += 1
            self.rows += sum(each.rows for each in ranges)
        if epoch is not None:
            self.epochs.add(epoch)
        for written in self._pending:
            self._before.setdefault(written.task, []).append(written)
        self._before = {} if at_rest else {task: each[-REMEMBERED_MAX:] for task, each in self._before.items()}
        self._pending = []

    def enter(self, epoch: str, ranges: list[Range]) -> None:
        """Let rows of a task's epoch count, unless they do: it is told again after a recovery, and by zombies."""
        while epoch not in self.epochs:
            number = self.next
            try:
                self._spool.append(number, epoch, ranges)
            except SpoolError:
                self.next, self.epochs = log_state(self._spool)  # another driver of the query, before or after this
                if self.next == number:
                    raise
                continue
            self.next += 1
            self.rows += sum(each.rows for each in ranges)
            self.epochs.add(epoch)

    def drop(self) -> None:
        """Leave out what was written since the last commit."""
        self._pending = []
        self._before = {}

    def _once(self) -> list[Range]:
        """The pending ranges, without rows that an earlier opening of the same task had written."""
        found: list[Range] = []
        for task in sorted({written.task for written in self._pending}):
            mine = [written for written in self._pending if written.task == task]
            openings = list(dict.fromkeys(each.opening for each in (*self._before.get(task, ()), *mine)))
            for opening in openings:
                ranges = [each.range for each in mine if each.opening == opening]
                earlier = openings[: openings.index(opening)]
                if ranges and earlier:
                    known = (each.range for each in (*self._before.get(task, ()), *mine) if each.opening in earlier)
                    ranges = self._without(task, ranges, known)
                found += ranges
        return found

    def _without(self, task: int, ranges: list[Range], known: Iterable[Range]) -> list[Range]:
        seen = pa.concat_arrays(
            [pa.array([], pa.uint64()), *(batch.column(0) for batch in self._spool.read(list(known), origins=True))]
        )
        seen = seen.drop_null()  # what hangs on no root is never repeated
        segment = Segment(self._spool, task)
        kept: list[Range] = []
        for part in ranges:
            batches = list(self._spool.read([part], origins=True))
            fresh = [batch.filter(pc.invert(pc.is_in(batch.column(0), value_set=seen))) for batch in batches]
            if sum(batch.num_rows for batch in fresh) == part.rows:
                kept.append(part)
            else:
                kept += [segment.append(batch) for batch in fresh if batch.num_rows]
        segment.close()
        return kept


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The same rows in as few ranges as can be."""
    found: list[Range] = []
    for part in ranges:
        last = found[-1] if found else None
        if last is not None and (last.file, last.end) == (part.file, part.begin):
            found[-1] = Range(last.file, last.begin, part.end, last.rows + part.rows)
        else:
            found.append(part)
    return found
