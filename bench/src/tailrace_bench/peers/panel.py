"""A small shared file through which the bench steers the generator of an arm and reads how far it is.

Every arm, whatever engine it runs, has one: the bench writes a command, generators and sinks write counters. So the
same window is measured the same way everywhere. Cells are aligned 64-bit numbers, each with one writer.
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path

EPOCH, START_NS, PERIOD_PS, STOP_NS, END, ASKED = range(6)
_DONE, _MADE, _ANSWERED, _CELLS = 16, 80, 144, 208
_CELL_BYTES = 8
_PS_PER_S = 1_000_000_000_000
_PS_PER_NS = 1000
#: Between a command and its first record, so that every generator has seen the command by then.
LEAD_NS = 60_000_000


class Panel:
    """The cells of one arm."""

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = str(path)
        if create:
            Path(path).write_bytes(bytes(_CELLS * _CELL_BYTES))
        with Path(path).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _CELLS * _CELL_BYTES)
        self.cells = memoryview(self._map).cast("q")

    # -- the bench's side ----------------------------------------------------------------------------------------

    def go(self, per_s: float, seconds: float) -> tuple[int, int]:
        """Make records at this rate (``inf``: as they are taken) for so long; tells when it begins, and how many."""
        start_ns = time.monotonic_ns() + LEAD_NS
        stop_ns = start_ns + int(seconds * 1e9)
        self.cells[START_NS], self.cells[STOP_NS] = start_ns, stop_ns
        period_ps = 0 if per_s == float("inf") else int(_PS_PER_S / per_s)
        self.cells[PERIOD_PS] = period_ps
        self.cells[EPOCH] += 1  # last: a generator that sees it finds the rest in place
        return start_ns, -(-(stop_ns - start_ns) * _PS_PER_NS // period_ps) if period_ps else 0

    def halt(self) -> None:
        """Make nothing more until the next command."""
        self.cells[STOP_NS] = 1
        self.cells[EPOCH] += 1

    def ask(self) -> None:
        """Ask the generators of peers to write down what their sinks know; the first answer says that they are up."""
        self.cells[ASKED] += 1

    def answered(self, partitions: int) -> bool:
        """Whether all of them have."""
        asked = self.cells[ASKED]
        return all(cell == asked for cell in self.cells[_ANSWERED : _ANSWERED + partitions])

    def end(self) -> None:
        """Let generators that can end do so."""
        self.cells[END] = 1

    def done(self) -> int:
        """How many items have come out of all sinks."""
        return sum(self.cells[_DONE:_MADE])

    def made(self, partitions: int) -> list[int]:
        """How many records each partition has made."""
        return list(self.cells[_MADE : _MADE + partitions])

    # -- the arm's side ------------------------------------------------------------------------------------------

    def count_done(self, sink: int, items: int) -> None:
        """A sink has taken so many items more."""
        self.cells[_DONE + sink] += items

    def count_made(self, partition: int, records: int) -> None:
        """A partition has made so many records more."""
        self.cells[_MADE + partition] += records

    def is_asked(self, partition: int) -> bool:
        """Whether the bench waits for an answer."""
        return self.cells[ASKED] != self.cells[_ANSWERED + partition]

    def answer(self, partition: int) -> None:
        """Tell the bench that it is written down."""
        self.cells[_ANSWERED + partition] = self.cells[ASKED]
