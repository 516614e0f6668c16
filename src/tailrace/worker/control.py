"""The worker's end of the control connection: typed messages to and from the coordinator.

Connecting blocks, because nothing else can happen before; afterwards the loop polls it. Losing it ends the worker:
Spark starts a new one, which is adopted in its place.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import deque

import msgspec

from tailrace import protocol
from tailrace.program.errors import FencedError, LeaseLostError, ProtocolError
from tailrace.transport.handshake import CONTROL, ClientHandshake, Identity
from tailrace.transport.stream import ClosedError, StreamConnection

_CONNECT_S = 10.0


class ControlLine:
    """A connection to the coordinator."""

    def __init__(self, address: tuple[str, int], secret: bytes, slot: int, message_bytes_max: int) -> None:
        sock = socket.create_connection(address, timeout=_CONNECT_S)
        handshake = ClientHandshake(secret, Identity(CONTROL, slot, 0))
        self._connection = StreamConnection(sock, handshake, message_bytes_max)
        self._waiting: deque[bytes] = deque()
        self._heard_s = time.monotonic()
        self._backlog: deque[bytes] = deque()
        #: What is still to be sent.
        self.waiting_bytes = 0
        # The watchdog speaks while the loop is held up by user code.
        self._lock = threading.Lock()
        while not self._connection.ready:
            self._pump(_CONNECT_S)

    def _pump(self, timeout_s: float) -> None:
        self._connection.write()
        ready, _, _ = select.select([self._connection], [], [], timeout_s)
        if not ready:
            raise LeaseLostError("The coordinator did not answer.", "Can the executors reach the driver's address?")
        self._waiting += self._connection.read()

    @property
    def host(self) -> str:
        """The address of this machine that the coordinator sees: what peers can reach it by."""
        return str(self._connection.sock.getsockname()[0])

    @property
    def silent_s(self) -> float:
        """Seconds since the coordinator was last heard."""
        return time.monotonic() - self._heard_s

    def register(self, message: protocol.Register) -> int:
        """Ask for the slot; gives the attempt number granted."""
        self.send(message)
        while not self._waiting:
            self._pump(_CONNECT_S)
        answer = protocol.decode_from_coordinator(self._waiting.popleft())
        if isinstance(answer, protocol.Welcome):
            return answer.attempt
        reason = answer.reason if isinstance(answer, protocol.Refused) else "an unexpected answer"
        raise FencedError(f"The coordinator refused this worker: {reason}.")

    def send(self, message: protocol.FromWorker) -> None:
        """Send a message, from any thread; what does not fit now goes with the next poll."""
        with self._lock:
            data = protocol.encode(message)
            self._backlog.append(data)
            self.waiting_bytes += len(data)
            self._drain()

    def _drain(self) -> None:
        while self._backlog and self._connection.send(self._backlog[0]):
            self.waiting_bytes -= len(self._backlog.popleft())

    def fileno(self) -> int:
        """The socket's descriptor, for selectors."""
        return self._connection.fileno()

    def poll(self) -> list[protocol.FromCoordinator]:
        """Messages that have come; raises when the coordinator is gone."""
        try:
            with self._lock:
                self._connection.write()
                self._drain()
                self._waiting += self._connection.read()
        except (ClosedError, OSError) as error:
            raise LeaseLostError("The coordinator is gone.", "The query ended or the driver died.") from error
        if not self._waiting:
            return []
        self._heard_s = time.monotonic()
        taken, self._waiting = self._waiting, deque()
        return [_decoded(data) for data in taken]

    def excuse(self) -> None:
        """Count silence from now: it was this worker that did not listen."""
        self._heard_s = time.monotonic()

    def flush(self, timeout_s: float) -> None:
        """Write everything out, waiting for the socket, before the worker leaves."""
        deadline_s = time.monotonic() + timeout_s
        while (self._backlog or self._connection.wants_write) and time.monotonic() < deadline_s:
            select.select([], [self._connection], [], 0.1)
            with self._lock:
                self._connection.write()
                self._drain()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _decoded(data: bytes) -> protocol.FromCoordinator:
    try:
        message: protocol.FromCoordinator = protocol.decode_from_coordinator(data)
    except msgspec.DecodeError as error:
        raise ProtocolError(
            f"The coordinator said something that this worker does not understand: {error}.",
            "Use the same version of Tailrace at the driver and on the executors.",
        ) from error
    return message
