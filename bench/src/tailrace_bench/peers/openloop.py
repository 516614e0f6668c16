"""The open-loop generator: what is due is due, whether or not the engine is ready to take it.

Knows no engine. A source of each engine asks it for what is due by now and stamps each record with its due time;
latency counted from there includes the wait of records that an engine was too busy to read.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .panel import END, EPOCH, PERIOD_PS, START_NS, STOP_NS, Panel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: How often a generator that has nothing to make looks for a command.
IDLE_NS = 20_000_000
_PS_PER_NS = 1000


class OpenLoop:
    """One partition's part of the records: of P partitions, p makes the numbers p, p + P, p + 2P, ..."""

    def __init__(
        self, panel: Panel, partition: int, partitions: int, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._panel = panel
        self._cells = panel.cells
        self._partition = partition
        self._partitions = partitions
        self._clock = clock
        self._number = partition
        self._epoch = 0
        self._turn = 0  #: records of this partition since the command
        self._start_ns = self._stop_ns = self._period_ps = 0

    @property
    def ended(self) -> bool:
        """Whether no command will come again."""
        return bool(self._cells[END])

    def _look(self) -> None:
        cells = self._cells
        if cells[EPOCH] != self._epoch:
            self._epoch = cells[EPOCH]
            self._start_ns, self._stop_ns, self._period_ps = cells[START_NS], cells[STOP_NS], cells[PERIOD_PS]
            self._turn = 0

    def _due_ns(self, turn: int) -> int:
        return self._start_ns + (self._partition + turn * self._partitions) * self._period_ps // _PS_PER_NS

    def take(self, most: int) -> tuple[range, Sequence[int] | None]:
        """Numbers of the records that are due by now, and when each was; no times where there is no rate."""
        self._look()
        now_ns = self._clock()
        count = self._due_count(now_ns, most)
        if count <= 0:
            return range(0), None
        first = self._number
        self._number += count * self._partitions
        dues = None
        if self._period_ps:
            dues = [self._due_ns(turn) for turn in range(self._turn, self._turn + count)]
        self._turn += count
        self._panel.count_made(self._partition, count)
        return range(first, self._number, self._partitions), dues

    def _due_count(self, now_ns: int, most: int) -> int:
        if now_ns < self._start_ns:
            return 0
        if not self._period_ps:
            return most if now_ns < self._stop_ns else 0
        until_ns = min(now_ns, self._stop_ns - 1)
        late_ns = until_ns - self._due_ns(self._turn)
        if late_ns < 0:
            return 0
        return min(most, late_ns * _PS_PER_NS // (self._period_ps * self._partitions) + 1)

    def wait_ns(self) -> int:
        """How long until a record may be due."""
        self._look()
        now_ns = self._clock()
        next_ns = self._due_ns(self._turn)
        if next_ns >= self._stop_ns or now_ns >= self._stop_ns > 0 == self._period_ps:
            return IDLE_NS
        return max(0, next_ns - now_ns)
