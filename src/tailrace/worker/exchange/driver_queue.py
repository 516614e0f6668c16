"""What the sinks of a worker have sent to the driver and the driver has yet to take.

The driver takes a message once the sink's ``receive`` has returned. Until then its values are lost with the worker, so
what they came of is not acknowledged; and they take memory at both ends, so a task that sends to the driver gets no
more turns while too many bytes wait. Called by ``acks`` and the scheduler; ``put`` may be called from any thread.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace import protocol
from tailrace.errors import ShareError
from tailrace.transport import codec

if TYPE_CHECKING:
    from tailrace.worker.execution.task import Task

#: What a message to the driver has besides the values.
_HEAD_BYTES = 1024
#: How many messages a deployment may send.
_SERIAL_BITS = 40


class _Untaken(NamedTuple):
    """A message that is under way."""

    serial: int
    operator: str
    task: int
    number: int
    data: bytes


class DriverQueue:
    """Messages to the driver that are under way, oldest first."""

    def __init__(
        self, control_out: deque[protocol.FromWorker], bytes_max: int, message_bytes_max: int, execution: int = 0
    ) -> None:
        self._control_out = control_out
        self._bytes_max = bytes_max
        self._values_bytes_max = message_bytes_max - _HEAD_BYTES
        self._lock = threading.Lock()
        self._waiting: deque[_Untaken] = deque()
        self._sent_by: dict[tuple[str, int], int] = {}
        #: Per operator and task the number of its next message, which a recovery takes up where its cut was.
        self._numbers: dict[tuple[str, int], int] = {}
        self._restored: list[tuple[str, int, bytes, int]] = []
        self.bytes = 0
        #: The serials of the newest messages sent and taken; above those of an earlier deployment in this worker.
        self.sent = self.taken = execution << _SERIAL_BITS

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
            number = self._numbers.get((operator, task), 0)
            self._numbers[operator, task] = number + 1
            self._send(operator, task, data, number)

    def _send(self, operator: str, task: int, data: bytes, number: int) -> None:
        self.sent += 1
        self._sent_by[operator, task] = self.sent
        self._waiting.append(_Untaken(self.sent, operator, task, number, data))
        self.bytes += len(data)
        self._control_out.append(protocol.Collected(operator, task, data, self.sent, number))

    def next_numbers(self, task: Task) -> dict[str, int]:
        """Per operator of a task the number of its next message, where it has sent any."""
        found = {spec.name: self._numbers.get((spec.name, task.index), 0) for spec in task.stage.operators}
        return {name: number for name, number in found.items() if number}

    def untaken(self, task: Task) -> list[tuple[str, int, bytes]]:
        """Operator, number and values of the messages of a task that the driver has yet to take."""
        names = {spec.name for spec in task.stage.operators}
        with self._lock:
            return [
                (name, number, data) for name, at, data, number in self._restored if at == task.index and name in names
            ] + [
                (each.operator, each.number, each.data)
                for each in self._waiting
                if each.task == task.index and each.operator in names
            ]

    def restore(self, task: Task, numbers: dict[str, int], untaken: list[tuple[str, int, bytes]]) -> None:
        """Go on as of a cut: what the driver had not taken then is sent again, under its numbers, when work begins."""
        for name, number in numbers.items():
            self._numbers[name, task.index] = number
        self._restored += [(operator, task.index, data, number) for operator, number, data in untaken]

    def send_restored(self) -> None:
        """Send what was restored; the driver takes nothing before it knows that this deployment is open."""
        with self._lock:
            for message in self._restored:
                self._send(*message)
            self._restored.clear()

    def take(self, serial: int) -> None:
        """The driver has everything up to this serial."""
        with self._lock:
            self.taken = max(self.taken, serial)
            while self._waiting and self._waiting[0].serial <= serial:
                self.bytes -= len(self._waiting.popleft().data)

    def newest_of(self, task: Task) -> int:
        """The serial of the last message that a task has sent; 0 if it has sent none."""
        return max([self._sent_by.get((spec.name, task.index), 0) for spec in task.stage.operators])

    def holds_back(self, task: Task) -> bool:
        """Whether a task sends to the driver, and too much waits for that."""
        return self.bytes >= self._bytes_max and self.newest_of(task) > 0
