"""When records came to a sink: pairs of due time and time of arrival, in memory that the bench reads.

A timed sink notes them without a system call, because Bytewax's sink keeps its own in memory too. One writer per file.
"""

from __future__ import annotations

import mmap
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

#: Room for the longest bench; the file is sparse, so that only what is noted takes memory.
PAIRS_MAX = 1 << 21
_CELL_BYTES = 8


class Arrivals:
    """One sink task's pairs; the first cell counts the cells behind it that are in use."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        if create:
            with Path(path).open("wb") as file:
                file.truncate((1 + 2 * PAIRS_MAX) * _CELL_BYTES)
        with Path(path).open("r+b") as file:
            self._cells = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
        self._read = 0

    def note(self, dues_ns: Collection[int], now_ns: int) -> None:
        """Items of these records came now; what there is no room for is missed by whoever counts them."""
        cells = self._cells
        used = cells[0]
        if used + 2 * len(dues_ns) >= len(cells):
            return
        for due_ns in dues_ns:
            cells[used + 1], cells[used + 2] = due_ns, now_ns
            used += 2
        cells[0] = used  # last: whoever sees it finds the pairs in place

    def fresh(self) -> array[int]:
        """What was noted since this was last asked."""
        used = self._cells[0]
        pairs = array("q", self._cells[1 + self._read : 1 + used])
        self._read = used
        return pairs
