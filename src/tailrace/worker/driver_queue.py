"""What the sinks of a worker have sent to the driver and the driver has yet to take.

The driver takes a message once the sink's ``receive`` has returned. Until then its values are lost with the worker, so
what they came of is not acknowledged; and they take memory at both ends, so a task that sends to the driver gets no
more turns while too many bytes wait. Called by ``acks`` and ``scheduling``; ``put`` may be called from any thread.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from tailrace import protocol

if TYPE_CHECKING:
    from .task import Task


class DriverQueue:
    """Messages to the driver that are under way, oldest first."""

    def __init__(self, control_out: deque[protocol.FromWorker], bytes_max: int) -> None:
        self._control_out = control_out
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, int]] = deque()
        self._sent_by: dict[tuple[str, int], int] = {}
        self.bytes = 0
        #: Messages sent and taken so far.
        self.sent = 0
        self.taken = 0

    def put(self, operator: str, task: int, values: bytes) -> None:
        """Send a sink's values."""
        with self._lock:
            self.sent += 1
            self._sent_by[operator, task] = self.sent
            self._waiting.append((self.sent, len(values)))
            self.bytes += len(values)
            self._control_out.append(protocol.Collected(operator, task, values, self.sent))

    def take(self, serial: int) -> None:
        """The driver has everything up to this serial."""
        with self._lock:
            self.taken = serial
            while self._waiting and self._waiting[0][0] <= serial:
                self.bytes -= self._waiting.popleft()[1]

    def newest_of(self, task: Task) -> int:
        """The serial of the last message that a task has sent; 0 if it has sent none."""
        return max([self._sent_by.get((spec.name, task.index), 0) for spec in task.stage.operators])

    def holds_back(self, task: Task) -> bool:
        """Whether a task sends to the driver, and too much waits for that."""
        return self.bytes >= self._bytes_max and self.newest_of(task) > 0
