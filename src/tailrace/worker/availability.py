"""Finds out, when the coordinator asks, how far a source must be read to have read all that was there at the question.

For ``query.processAllAvailable()``. A partition answers once it was seen to have nothing more: it has ended, it says
that nothing is due, or a read gave nothing. Owned by the brain, which asks whenever it looks at the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol

if TYPE_CHECKING:
    from tailrace.worker.worker_state import WorkerState

_NS_PER_S = 1_000_000_000
#: Readers that look for something new now and then do so at least this often.
_LOOKS_EVERY_S = 1.0


class Availability:
    """The newest question, and which partitions have yet to answer it."""

    def __init__(self, worker: WorkerState) -> None:
        self._worker = worker
        self._serial = 0
        self._answered: set[int] = set()
        #: Per partition: until then it goes by what it found before the question, a file that it looks at now and then.
        self._stale_ns: dict[int, int] = {}

    def ask(self, serial: int) -> None:
        """Answer from now on; the same question again is from a coordinator that misses answers."""
        if serial != self._serial:
            self._serial = serial
            now_ns = self._worker.clock.now_ns()
            for task, source in self._worker.sources:
                source.dry.clear()
                for partition, reader in source.readers.items():
                    wait_s = 0.0 if task.in_flight or reader.finished else min(_LOOKS_EVERY_S, reader.wait_s())
                    self._stale_ns[partition] = now_ns + int(wait_s * _NS_PER_S)
        self._answered.clear()

    def look(self) -> None:
        """Tell the next offset of each partition that was found to have nothing more since the question."""
        if not self._serial:
            return
        found: dict[int, int] = {}
        now_ns = self._worker.clock.now_ns()
        for task, source in self._worker.sources:
            if task.in_flight:
                continue  # its reader is in use, maybe by another thread
            offsets = source.ledger.next_offsets()
            for partition, reader in source.readers.items():
                idle = now_ns > self._stale_ns.get(partition, 0) and reader.wait_s() > 0
                if partition not in self._answered and (partition in source.dry or reader.finished or idle):
                    found[partition] = offsets.get(partition, 0)
        if found:
            self._answered.update(found)
            self._worker.control_out.append(protocol.Available(self._serial, found))
