"""Writes a worker's parts of checkpoints in a thread of its own, so that the loop never waits for a store.

The loop hands over what the brain wants written and brings back what came of it, in every round. A write that may
succeed a moment later is tried again; what cannot be written fails its epoch and nothing else.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from typing import TYPE_CHECKING

from tailrace.checkpoint.errors import ForeignCheckpointError
from tailrace.checkpoint.objects import again_if_transient
from tailrace.checkpoint.stores.store import claim

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
        self._asked: queue.SimpleQueue[PartWrite | None] = queue.SimpleQueue()
        self._done: deque[tuple[PartWrite, int, Exception | None]] = deque()
        self._thread = threading.Thread(target=self._serve, name="tailrace-checkpoints", daemon=True)
        self._thread.start()

    def exchange(self, brain: WorkerBrain) -> None:
        """Take what the brain wants written, and tell it what was."""
        writes = brain.writes
        while writes:
            self._asked.put(writes.popleft())
        while self._done:
            brain.written(*self._done.popleft())

    def close(self) -> None:
        """Write nothing more; what is being written is left to itself."""
        self._asked.put(None)

    def _serve(self) -> None:
        while (write := self._asked.get()) is not None:
            try:
                data = write.encode()
                self._put(write.name, data)
                self._done.append((write, len(data), None))
            except Exception as error:  # noqa: BLE001 - values of a user's are encoded here, too
                self._done.append((write, 0, error))
            self._wakeup()

    def _put(self, name: str, data: bytes) -> None:
        if not again_if_transient(lambda: claim(self._store, name, data)):
            raise ForeignCheckpointError(
                f"{name} was written by another query or start while this one wrote it: both have the same checkpoint.",
                "Give every query a folder of its own, and let only one driver run it.",
            )
