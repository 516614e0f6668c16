"""What the sinks of a worker have sent to the driver and the driver has yet to take.

The driver takes a message once the sink's ``receive`` has returned. Until then its values are lost with the worker, so
what they came of is not acknowledged; and they take memory at both ends, so a task that sends to the driver gets no
more turns while too many bytes wait. Called by ``acks`` and the scheduler; ``put`` may be called from any thread.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.errors import ShareError
from tailrace.transport import codec

if TYPE_CHECKING:
    from tailrace.worker.execution.task import Task

#: What a message to the driver has besides the values.
_HEAD_BYTES = 1024


class DriverQueue:
    """Messages to the driver that are under way, oldest first."""

    def __init__(self, control_out: deque[protocol.FromWorker], bytes_max: int, message_bytes_max: int) -> None:
        self._control_out = control_out
        self._bytes_max = bytes_max
        self._values_bytes_max = message_bytes_max - _HEAD_BYTES
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, int]] = deque()
        self._sent_by: dict[tuple[str, int], int] = {}
        self.bytes = 0
        #: Messages sent and taken so far.
        self.sent = 0
        self.taken = 0

    def put(self, operator: str, task: int, values: Any) -> None:
        """Send what a sink gave to ``emit_to_driver``; the sink's ``receive`` gets it as it is."""
        data = codec.dumps(values)
        if len(data) > self._values_bytes_max:
            raise ShareError(
                f"What goes to the driver in one call must fit into {self._values_bytes_max:,} bytes; "
                f"sink {operator!r} gave {len(data):,}.",
                "Raise the setting frame_bytes_max, give less at a time, or write values of this size with a sink that "
                "does not go through the driver.",
            )
        with self._lock:
            self.sent += 1
            self._sent_by[operator, task] = self.sent
            self._waiting.append((self.sent, len(data)))
            self.bytes += len(data)
            self._control_out.append(protocol.Collected(operator, task, data, self.sent))

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
