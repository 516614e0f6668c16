"""Writes a worker's parts of checkpoints in a thread of its own, so that the loop never waits for a store.

The loop hands over what the brain wants written and brings back what came of it, in every round. A write that may
succeed a moment later is tried again; what cannot be written fails its epoch and nothing else.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from typing import TYPE_CHECKING

from tailrace.checkpoint.objects import write_object
from tailrace.worker.checkpoint.merger import PartMerger

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.checkpoint.stores.store import ObjectStore
    from tailrace.worker.brain import WorkerBrain
    from tailrace.worker.checkpoint.cutter import PartWrite


class PartWriter:
    """The thread that writes, and the two queues to and from it."""

    def __init__(self, store: ObjectStore, wakeup: Callable[[], None]) -> None:
        self._store = store
        self._wakeup = wakeup
        self._merger = PartMerger(store, wakeup)
        self._asked: queue.SimpleQueue[PartWrite | None] = queue.SimpleQueue()
        self._done: deque[tuple[PartWrite, int, Exception | None]] = deque()
        self._thread = threading.Thread(target=self._serve, name="tailrace-checkpoints", daemon=True)
        self._thread.start()

    def exchange(self, brain: WorkerBrain) -> None:
        """Take what the brain wants written, and tell it what was; merging has a thread of its own."""
        self._merger.attend(brain.merges, brain.control_out, brain.slot)
        writes = brain.writes
        while writes:
            self._asked.put(writes.popleft())
        while self._done:
            brain.written(*self._done.popleft())

    def close(self) -> None:
        """Write nothing more; what is being written is left to itself."""
        self._asked.put(None)
        self._merger.close()

    def _serve(self) -> None:
        while (write := self._asked.get()) is not None:
            try:
                data = write.encode()
                write_object(self._store, write.name, data)
                self._done.append((write, len(data), None))
            except Exception as error:  # noqa: BLE001 - values of a user's are encoded here, too
                self._done.append((write, 0, error))
            self._wakeup()
