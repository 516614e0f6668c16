"""Holds a worker's input, so that everything comes to rest for a cut with nothing in flight: a drained savepoint.

Sources read nothing but what they owe since a recovery, no tick and no end of a task is begun; what is under way comes
to its end. Once that is so it stays so until the hold is over, because nothing else makes roots. Owned by the
deployment; the loop's thread calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol

if TYPE_CHECKING:
    from tailrace.worker.worker_state import WorkerState


class InputHold:
    """The hold of one deployment."""

    def __init__(self, worker: WorkerState) -> None:
        self._worker = worker
        self._epoch = 0

    @property
    def active(self) -> bool:
        """Whether it has yet to be told that everything is at rest."""
        return self._epoch > 0

    def hold(self, epoch: int) -> None:
        """Begin no root that is not owed."""
        self._epoch = epoch
        self._worker.held = True
        for _, source in self._worker.sources:
            source.held = True

    def release(self) -> None:
        """Go on as before."""
        self._epoch = 0
        for _, source in self._worker.sources:
            source.held = False
        self._worker.let_end()

    def progress(self) -> None:
        """Tell the coordinator once nothing of this worker's roots is open."""
        if self._epoch and self._at_rest:
            self._worker.control_out.append(protocol.InputDrained(self._epoch))
            self._epoch = 0

    @property
    def _at_rest(self) -> bool:
        for task in self._worker.tasks:
            if task.in_flight or (task.own is not None and len(task.own.ledger)):
                return False
        return not any(source.owed or len(source.ledger) for _, source in self._worker.sources)
