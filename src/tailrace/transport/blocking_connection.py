"""A connection that waits: messages to and fro over the same handshake as all others.

Spark tasks, workers' ingest threads, the feed server and both ends of the store relay use it, each from a thread that
has nothing else to do.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import time
from typing import TYPE_CHECKING

from tailrace.transport.handshake import INGEST, ClientHandshake, HandshakeError, Identity
from tailrace.transport.stream import ClosedError, StreamConnection
from tailrace.transport.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

CONNECT_S = 10.0
_SLICE_S = 0.5
#: What a broken or foreign peer makes of a call.
LINE_ERRORS = (ClosedError, HandshakeError, WireError, OSError)


class Line:
    """One end of a connection; used by one thread."""

    def __init__(self, connection: StreamConnection, waiting: list[bytes] | None = None) -> None:
        self._connection = connection
        #: Messages that have come and were not asked for yet.
        self._waiting: list[bytes] = waiting or []

    @classmethod
    def to(cls, address: tuple[str, int] | str, secret: bytes, message_bytes_max: int, purpose: int = INGEST) -> Line:
        """Connect to a TCP address or the path of a Unix socket, and prove the secret."""
        if isinstance(address, str):
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(CONNECT_S)
            sock.connect(address)
        else:
            sock = socket.create_connection(address, timeout=CONNECT_S)
        line = cls(StreamConnection(sock, ClientHandshake(secret, Identity(purpose, 0, 0)), message_bytes_max))
        try:
            line.prove()
        except BaseException:
            line.close()
            raise
        return line

    @property
    def local_host(self) -> str:
        """The address of this machine that the peer sees."""
        return str(self._connection.sock.getsockname()[0])

    def prove(self) -> None:
        """Go through the handshake, within its time limit."""
        while not self._connection.ready:
            if self._connection.expired:
                raise HandshakeError("A peer did not prove this query's secret in time.")
            self._pump(_SLICE_S)

    def _pump(self, timeout_s: float) -> None:
        self._connection.write()
        # Not select.select, which takes no descriptor above 1,023.
        waiter = select.poll()
        waiter.register(self._connection, select.POLLIN | (select.POLLOUT if self._connection.wants_write else 0))
        if any(events & ~select.POLLOUT for _, events in waiter.poll(timeout_s * 1000)):
            self._waiting += self._connection.read()

    def send(self, message: bytes, *, unless: Callable[[], bool] = lambda: False, timeout_s: float = math.inf) -> bool:
        """Send a message, waiting for room; false, and nothing sent, when ``unless`` came true meanwhile.

        Raises where the peer takes nothing for so long.
        """
        deadline_s = time.monotonic() + timeout_s
        while not self._connection.send(message):
            if unless():
                return False
            self._pump_by(deadline_s)
        while self._connection.wants_write:
            self._pump_by(deadline_s)
        return True

    def _pump_by(self, deadline_s: float) -> None:
        if time.monotonic() > deadline_s:
            raise ClosedError("the peer takes nothing any more")
        self._pump(_SLICE_S)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has come that was not asked for, such as the peer's close."""
        waiter = select.poll()
        waiter.register(self._connection, select.POLLIN)
        return not self._waiting and not waiter.poll(0)

    def receive(self, timeout_s: float) -> bytes | None:
        """The next message, None when none came in time."""
        deadline_s = time.monotonic() + timeout_s
        while not self._waiting:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return None
            self._pump(min(left_s, _SLICE_S))
        return self._waiting.pop(0)

    def hang_up(self) -> None:
        """Let whoever waits on this line learn that it is over, from any thread."""
        with contextlib.suppress(OSError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
