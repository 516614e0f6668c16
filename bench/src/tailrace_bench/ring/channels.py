"""How a message gets from one process to another: the ring, a Unix socket, TCP and ZeroMQ behind one face.

Used by ``ends`` only. Every channel sends each message at once, from the sender's own buffer, and hands it out whole;
none copies more than it must. Addresses are paths in a private folder.
"""

from __future__ import annotations

import importlib
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tailrace.config import Settings
from tailrace.transport.ring import RingReader, RingWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

Bytes: TypeAlias = bytes | memoryview

_LENGTH = struct.Struct("<I")
_HEAD_BYTES = _LENGTH.size
_SOCKET_BYTES = 4 << 20
_READ_BYTES = 1 << 20
_ROOM_US = 10_000_000
_WAIT_US = 10_000_000
_CONNECT_S = 20.0
_RECORDS_MAX = 256


class Sender(Protocol):
    """The sending end."""

    def prepare(self, size: int) -> memoryview:
        """Give the bytes of the next messages to write into."""
        ...

    def send(self) -> None:
        """Send the message as it stands there, at once."""
        ...


class Receiver(Protocol):
    """The receiving end."""

    def receive(self) -> Sequence[tuple[int, Bytes]]:
        """Wait for messages, as (target, bytes); those given out are whole and hold until the next call."""
        ...


class RingSender:
    """Into the peer's ring, by the native call, as the others use theirs."""

    def __init__(self, address: str) -> None:
        _wait_for(address)
        self._post = RingWriter(address).ring.post

    def prepare(self, size: int) -> memoryview:
        """A message of its own, outside of the ring, as the engine's are."""
        self._message = memoryview(bytearray(size))
        return self._message

    def send(self) -> None:
        """Copy the message into the ring, waiting for room if need be."""
        if not self._post(0, self._message, _ROOM_US):
            raise TimeoutError("the ring had no room for 10 s")


class RingReceiver:
    """From this process's ring; its size adapts as a worker's does, or stays as it is where one is asked for."""

    def __init__(self, address: str, ring_bytes: int) -> None:
        reader = RingReader(f"{address}.new", ring_bytes or Settings().ring_bytes)
        self._borrow = reader.ring.borrow if ring_bytes else reader.borrow
        Path(f"{address}.new").rename(address)

    def receive(self) -> Sequence[tuple[int, Bytes]]:
        """Sleep until something is there, then take it."""
        found = self._borrow(_RECORDS_MAX, _WAIT_US)
        if not found:
            raise TimeoutError("nothing came through the ring for 10 s")
        return found


class StreamSender:
    """A Unix socket or TCP; each message with its length in front, sent by one call."""

    def __init__(self, kind: str, address: str) -> None:
        _wait_for(address)
        if kind == "uds":
            self._sock = socket.socket(socket.AF_UNIX)
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
            self._sock.connect(f"{address}.sock")
            return
        self._sock = socket.create_connection(("127.0.0.1", int(Path(address).read_text(encoding="ascii"))))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def prepare(self, size: int) -> memoryview:
        """The message stands behind its length, so that one call sends both without putting them together."""
        self._frame = memoryview(bytearray(_HEAD_BYTES + size))
        _LENGTH.pack_into(self._frame, 0, size)
        return self._frame[_HEAD_BYTES:]

    def send(self) -> None:
        """Send the whole frame."""
        self._sock.sendall(self._frame)


class StreamReceiver:
    """The other side: reads as much as there is into one buffer and cuts messages out of it without copying."""

    def __init__(self, kind: str, address: str) -> None:
        if kind == "uds":
            server = socket.socket(socket.AF_UNIX)
            server.bind(f"{address}.sock")
        else:
            server = socket.create_server(("127.0.0.1", 0))
        server.listen(1)
        written = Path(f"{address}.new")
        written.write_text("" if kind == "uds" else str(server.getsockname()[1]), encoding="ascii")
        written.rename(address)
        self._sock, _ = server.accept()
        server.close()
        self._sock.settimeout(_WAIT_US / 1e6)
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._begin = self._end = 0

    def receive(self) -> Sequence[tuple[int, Bytes]]:
        """Read until at least one message is whole."""
        while True:
            found = self._cut()
            if found:
                return found
            self._make_room()
            count = self._sock.recv_into(self._buffer[self._end :])
            if not count:
                raise EOFError("the sender is gone")
            self._end += count

    def _cut(self) -> list[tuple[int, Bytes]]:
        found: list[tuple[int, Bytes]] = []
        buffer, at, end = self._buffer, self._begin, self._end
        while end - at >= _HEAD_BYTES:
            (length,) = _LENGTH.unpack_from(buffer, at)
            if end - at - _HEAD_BYTES < length:
                break
            at += _HEAD_BYTES
            found.append((0, buffer[at : at + length]))
            at += length
        self._begin = at
        return found

    def _make_room(self) -> None:
        """Move an unfinished message to the front; everything before it has been given out."""
        if self._begin:
            held = bytes(self._buffer[self._begin : self._end])
            self._buffer[: len(held)] = held
            self._begin, self._end = 0, len(held)


class ZmqSender:
    """ZeroMQ over a Unix socket (ipc), PUSH to PULL."""

    def __init__(self, address: str) -> None:
        zmq: Any = importlib.import_module("zmq")
        self._sock = zmq.Context(1).socket(zmq.PUSH)
        _wait_for(address)
        self._sock.connect(f"ipc://{address}.ipc")

    def prepare(self, size: int) -> memoryview:
        """A message of its own."""
        self._message = memoryview(bytearray(size))
        return self._message

    def send(self) -> None:
        """Send by copy: the bytes are written again right after."""
        self._sock.send(self._message, copy=True)


class ZmqReceiver:
    """The other side."""

    def __init__(self, address: str) -> None:
        self._zmq: Any = importlib.import_module("zmq")
        self._sock = self._zmq.Context(1).socket(self._zmq.PULL)
        self._sock.setsockopt(self._zmq.RCVTIMEO, _WAIT_US // 1000)
        self._sock.bind(f"ipc://{address}.ipc")
        Path(address).touch()

    def receive(self) -> Sequence[tuple[int, Bytes]]:
        """One message; from 64 KiB on without a copy of its own."""
        return [(0, self._sock.recv(copy=False).buffer)]


def _wait_for(address: str) -> None:
    deadline_s = time.monotonic() + _CONNECT_S
    while not Path(address).exists():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"nobody listens at {address}")
        time.sleep(0.005)


def open_sender(kind: str, address: str) -> Sender:
    """Connect to a receiver, waiting until it listens."""
    if kind == "ring":
        return RingSender(address)
    return ZmqSender(address) if kind == "zmq" else StreamSender(kind, address)


def open_receiver(kind: str, address: str, ring_bytes: int) -> Receiver:
    """Listen."""
    if kind == "ring":
        return RingReceiver(address, ring_bytes)
    return ZmqReceiver(address) if kind == "zmq" else StreamReceiver(kind, address)
