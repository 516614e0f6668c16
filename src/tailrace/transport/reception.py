"""Takes in blocking connections: one thread for all that are unproved, one for each that is proved.

Used by the driver's feed server and store relay and by the workers' ingest. A stranger costs a descriptor for the
handshake's time limit at most, never a thread; when too many wait, the one that has waited longest goes.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import TYPE_CHECKING

from tailrace.transport.blocking_connection import LINE_ERRORS, Line
from tailrace.transport.handshake import INGEST, ServerHandshake
from tailrace.transport.stream import UNPROVED_MAX, StreamConnection

if TYPE_CHECKING:
    from collections.abc import Callable

_LISTEN_BACKLOG = 128
_LOOK_S = 0.5
#: How long no one is taken in when the process has no descriptor left.
_REST_S = 0.1


class Reception:
    """Listens, sees peers through the handshake, and gives each that proves the secret to ``serve`` in a thread."""

    def __init__(self, host: str, secret: bytes, message_bytes_max: int, name: str, purpose: int = INGEST) -> None:
        self._secret = secret
        self._message_bytes_max = message_bytes_max
        self._purpose = purpose
        self._name = name
        self._server = socket.create_server((host, 0), backlog=_LISTEN_BACKLOG)
        self._server.setblocking(False)
        self._address: tuple[str, int] = self._server.getsockname()[:2]
        self._selector = selectors.DefaultSelector()
        #: Oldest first.
        self._unproved: dict[StreamConnection, None] = {}
        self._serve: Callable[[Line], None] | None = None
        self._closed = threading.Event()

    @property
    def address(self) -> tuple[str, int]:
        """Where peers connect to."""
        return self._address

    def start(self, serve: Callable[[Line], None]) -> None:
        """Begin to take peers in; ``serve`` has a line for itself and may wait on it."""
        self._serve = serve
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def close(self) -> None:
        """Take nobody in any more; lines that are being served stay."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closes
        if self._serve is None:
            self._close_all()

    def _run(self) -> None:
        try:
            self._selector.register(self._server, selectors.EVENT_READ)
            while not self._closed.is_set():
                self._turn()
        finally:
            self._close_all()

    def _close_all(self) -> None:
        for connection in list(self._unproved):
            self._drop(connection)
        self._selector.close()
        self._server.close()

    def _turn(self) -> None:
        for key, _ in self._selector.select(_LOOK_S):
            if isinstance(key.fileobj, StreamConnection):
                if key.fileobj in self._unproved:  # it may have been dropped for a newer one in this very turn
                    self._hear(key.fileobj)
            elif not self._closed.is_set():
                self._accept()
        for connection in [each for each in self._unproved if each.expired]:
            self._drop(connection)

    def _accept(self) -> None:
        try:
            sock, _ = self._server.accept()
        except BlockingIOError:
            return
        except OSError:
            # No descriptor is left, or the peer is gone: those who are served go on, and it is tried again.
            self._drop_oldest()
            self._closed.wait(_REST_S)
            return
        if len(self._unproved) >= UNPROVED_MAX:
            self._drop_oldest()
        connection = StreamConnection(sock, ServerHandshake(self._secret, self._purpose), self._message_bytes_max)
        self._unproved[connection] = None
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, connection: StreamConnection) -> None:
        try:
            messages = connection.read()
            connection.write()
        except LINE_ERRORS:
            self._drop(connection)
            return
        if connection.ready:
            self._selector.unregister(connection)
            del self._unproved[connection]
            line = Line(connection, messages)
            threading.Thread(target=self._attend, args=(line,), name=f"{self._name}-line", daemon=True).start()

    def _attend(self, line: Line) -> None:
        with contextlib.closing(line):
            if self._serve is not None:
                self._serve(line)

    def _drop_oldest(self) -> None:
        if self._unproved:
            self._drop(next(iter(self._unproved)))

    def _drop(self, connection: StreamConnection) -> None:
        del self._unproved[connection]
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection)
        connection.sock.close()
