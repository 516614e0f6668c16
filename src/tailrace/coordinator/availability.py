"""``query.processAllAvailable()``: asks the sources what is there now, and waits until that is complete.

Called in the user's thread. The question is repeated, because a worker may be lost, or a source moved, before it
answers; the first answer of a partition counts.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from tailrace import protocol

from .errors import QueryError

if TYPE_CHECKING:
    from .brain import CoordinatorBrain
    from .callbacks import Callbacks
    from .ending import Ending
    from .loop import CoordinatorLoop

_POLL_S = 0.01
_ASK_AGAIN_S = 1.0


class AllAvailable:
    """Waits for what is available, one caller at a time."""

    def __init__(self, loop: CoordinatorLoop, brain: CoordinatorBrain, callbacks: Callbacks, ending: Ending) -> None:
        self._loop = loop
        self._brain = brain
        self._callbacks = callbacks
        self._ending = ending
        self._one = threading.Lock()
        self._serial = 0

    def process(self) -> None:
        """Return when all that sources had at the call is complete and sinks on the driver have it."""
        self._ending.check_may_wait("processAllAvailable()")
        if not self._brain.started and not self._ending.finished.is_set():
            raise QueryError("processAllAvailable() waits for a query that runs; this one does not yet.", "Start it.")
        with self._one:
            self._serial += 1
            serial = self._serial
            self._loop.ask(lambda brain, _: brain.ask_available(serial))
            asked_s = time.monotonic()
            while not self._ending.finished.wait(_POLL_S) and not self._complete():
                if time.monotonic() - asked_s > _ASK_AGAIN_S:
                    asked_s = time.monotonic()
                    self._loop.ask(lambda brain, _: brain.tell_all(protocol.AskAvailable(serial)))
        if self._ending.finished.is_set() and self._brain.error is not None:
            raise self._brain.error

    def _complete(self) -> bool:
        wanted = self._loop.look(lambda brain: dict(brain.available))
        if len(wanted) < len(self._brain.partitions):
            return False
        marks = self._callbacks.marks
        return all(marks.get(partition, 0) >= offset for partition, offset in wanted.items())
