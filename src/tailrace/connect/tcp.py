"""Lines from a TCP server as a source, for trying things out.

A socket cannot be read twice: what was under way when a worker dies is lost, and after the restart reading goes on with
what the server sends then. Use a source that can be replayed where that matters.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from tailrace.topology.contracts import Reader, Records, Source

from .errors import ConnectorOptionError, NoInputError
from .text import LineSplitter, check_encoding, check_errors

if TYPE_CHECKING:
    from ..clock import Clock

BLOCK_BYTES = 64 * 1024
CONNECT_TIMEOUT_S = 5.0
POLL_NS = 10_000_000
PORT_MAX = 65_535


class TcpLines(Source[str]):
    """See ``sources.socket``. Offsets only count the lines of this connection on from where the last one ended."""

    label = "socket"
    movable = False
    bounded = False

    def __init__(self, host: str, port: int, *, encoding: str, errors: str) -> None:
        check_encoding(encoding)
        check_errors(errors)
        if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= PORT_MAX:
            raise ConnectorOptionError(
                f"port must be a whole number from 1 to {PORT_MAX}, found {port!r}.",
                "Give the port the server listens at.",
            )
        self.host = host
        self.port = port
        self.encoding = encoding
        self.errors = errors

    def partitions(self) -> list[str]:
        """Name the one connection."""
        return [f"{self.host}:{self.port}"]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Connect to the server."""
        try:
            connection = socket.create_connection((self.host, self.port), CONNECT_TIMEOUT_S)
        except OSError as error:
            raise NoInputError(
                f"No server answers at {partition} from a worker: {error}.",
                "Start the server first; its address is looked up where the worker runs.",
            ) from None
        connection.setblocking(False)
        return _TcpReader(connection, LineSplitter(partition, self.encoding, 0, self.errors), offset, clock)


class _TcpReader(Reader):
    def __init__(self, connection: socket.socket, splitter: LineSplitter, offset: int, clock: Clock) -> None:
        self._connection = connection
        self._splitter = splitter
        self._clock = clock
        self._offset = offset
        self._lines: list[Any] = []
        self._poll_at_ns = 0
        self._closed_by_peer = False

    def read(self, max_records: int) -> Records:
        """Return lines that have arrived."""
        if not self._lines and not self._closed_by_peer:
            self._receive()
        values, self._lines = self._lines[:max_records], self._lines[max_records:]
        offsets = range(self._offset, self._offset + len(values))
        self._offset += len(values)
        return Records(offsets, values)

    def _receive(self) -> None:
        try:
            block = self._connection.recv(BLOCK_BYTES)
        except BlockingIOError:
            self._poll_at_ns = self._clock.now_ns() + POLL_NS
            return
        except OSError as error:
            raise NoInputError(
                f"The connection broke after {self._offset:,} lines: {error}.", "See to the server and start again."
            ) from None
        if block:
            self._lines = self._splitter.feed(block)[0]
        else:
            self._closed_by_peer = True
            self._lines = self._splitter.finish()[0]

    @property
    def finished(self) -> bool:
        """Whether the server has closed the connection and all of it has been read."""
        return self._closed_by_peer and not self._lines

    def wait_s(self) -> float:
        """Tell how long it is until the socket is looked at again."""
        return 0.0 if self._lines else max(0, self._poll_at_ns - self._clock.now_ns()) / 1e9

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
