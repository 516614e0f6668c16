"""A non-blocking connection over TCP or a Unix socket: first the handshake, then messages with their length in front.

Used by both loops for control and data. A message is given out only after the peer has proved the secret, and a length
is checked before memory is taken for it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import TYPE_CHECKING

from .handshake import TIME_LIMIT_S
from .wire import WireError

if TYPE_CHECKING:
    from .handshake import ClientHandshake, ServerHandshake

_LENGTH = struct.Struct("<I")
_READ_BYTES = 256 * 1024
#: Bytes that may wait in a connection before it takes no further message.
BACKLOG_BYTES_MAX = 1024 * 1024
#: Connections of a listener that have not proved themselves; for the next one the oldest of them is closed.
UNPROVED_MAX = 256


class ClosedError(ConnectionError):
    """The peer is gone."""


class StreamConnection:
    """One connection. ``ready`` once both sides have proved themselves."""

    def __init__(
        self, sock: socket.socket, handshake: ClientHandshake | ServerHandshake, message_bytes_max: int
    ) -> None:
        sock.setblocking(False)
        if sock.family in {socket.AF_INET, socket.AF_INET6}:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.ready = False
        self.handshake = handshake
        self._message_bytes_max = message_bytes_max
        self._deadline_s = time.monotonic() + TIME_LIMIT_S
        self._in = bytearray()
        self._out = bytearray(handshake.out)

    def fileno(self) -> int:
        """The socket's descriptor, for selectors."""
        return self.sock.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait to be written."""
        return bool(self._out)

    @property
    def expired(self) -> bool:
        """Whether the peer has taken too long to prove itself."""
        return not self.ready and time.monotonic() > self._deadline_s

    def send(self, message: bytes) -> bool:
        """Take a message to be sent; false, and nothing taken, when too much waits already."""
        if not self.ready or len(self._out) > BACKLOG_BYTES_MAX:
            return False
        if self._out:
            self._out += _LENGTH.pack(len(message))
            self._out += message
        else:
            self._write_first(_LENGTH.pack(len(message)) + message)
        return True

    def _write_first(self, data: bytes) -> None:
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(data):
            self._out += memoryview(data)[sent:]

    def write(self) -> None:
        """Write what waits, as far as the socket takes it."""
        while self._out:
            try:
                sent = self.sock.send(self._out)
            except (BlockingIOError, InterruptedError):
                return
            del self._out[:sent]

    def read(self) -> list[bytes]:
        """Read what has come; gives whole messages. Raises when the peer is gone or is none of ours."""
        try:
            data = self.sock.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return []
        if not data:
            raise ClosedError("the peer closed the connection")
        self._in += data
        if not self.ready:
            self._shake()
        return self._messages() if self.ready else []

    def _shake(self) -> None:
        while not self.handshake.done and len(self._in) >= self.handshake.wants_bytes:
            wanted = self.handshake.wants_bytes
            answer = self.handshake.feed(bytes(self._in[:wanted]))
            del self._in[:wanted]
            self._out += answer
        if self.handshake.done:
            self.write()
            self.ready = True

    def _messages(self) -> list[bytes]:
        found, at, held = [], 0, self._in
        while len(held) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(held, at)
            if length > self._message_bytes_max:
                raise WireError(
                    f"A message may have {self._message_bytes_max} bytes; a peer announced {length}.",
                    "Raise the setting frame_bytes_max if your tuples are that large.",
                )
            if len(held) - at - _LENGTH.size < length:
                break
            at += _LENGTH.size
            found.append(bytes(memoryview(held)[at : at + length]))
            at += length
        if at:
            del held[:at]
        return found

    def close(self) -> None:
        """Close the socket; what waits is written if the socket takes it at once."""
        with contextlib.suppress(OSError):
            self.write()
        self.sock.close()
