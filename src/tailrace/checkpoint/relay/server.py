"""The driver's end of the relay: serves one store to a query's workers, each connection in a thread of its own.

Made with a query whose workers cannot reach its store, which is then written through the driver. It has a port of its
own, so that parts of checkpoints, however large, stand in no beat's way. What is on its way takes a bounded share of
the driver's memory: who would exceed it waits, and is no longer read from meanwhile.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec

from tailrace.checkpoint.relay.messages import (
    MESSAGE_BYTES_MAX,
    ROWS_PER_MESSAGE,
    Answer,
    ContentAnswer,
    DeleteAnswer,
    DeleteRequest,
    FailedAnswer,
    GetRequest,
    ListAnswer,
    PutAnswer,
    PutRequest,
    Request,
    decode_request,
    encode_message,
    pieces,
)
from tailrace.checkpoint.stores.errors import StoreError
from tailrace.transport.blocking_connection import LINE_ERRORS
from tailrace.transport.handshake import STORE
from tailrace.transport.reception import Reception
from tailrace.transport.stream import ClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.checkpoint.stores.store import ObjectStore
    from tailrace.transport.blocking_connection import Line

#: Data that may be on its way to the store at a time; an object that is larger goes alone.
HELD_BYTES_MAX = 128 * 1024 * 1024
#: Objects that may be on their way from the store: their sizes are known when they are read.
_READS_MAX = 4
#: Connections of peers that have proved the secret; a worker has one or two.
LINES_MAX = 2048
#: A peer that is silent in the midst of something for so long is gone.
_SILENT_S = 30.0
_LOOK_S = 0.5


class HeldBytes:
    """A bound on memory that threads wait for; what exceeds it by itself is admitted when nothing else is held."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held = 0
        self._changed = threading.Condition()

    def take(self, size_bytes: int) -> None:
        """Wait until there is room."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held or self._held + size_bytes <= self._bytes_max)
            self._held += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Make room."""
        with self._changed:
            self._held -= size_bytes
            self._changed.notify_all()


class StoreRelay:
    """Serves a store on a port of the driver."""

    def __init__(self, store: ObjectStore, host: str, secret: bytes, held_bytes_max: int = HELD_BYTES_MAX) -> None:
        self._store = store
        self._reception = Reception(host, secret, MESSAGE_BYTES_MAX, "tailrace-store", STORE)
        self._held = HeldBytes(held_bytes_max)
        self._reads = threading.Semaphore(_READS_MAX)
        self._lines: set[Line] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @property
    def port(self) -> int:
        """Where workers connect to."""
        return self._reception.address[1]

    def start(self) -> None:
        """Begin to serve."""
        self._reception.start(self._serve)

    def close(self) -> None:
        """Serve nobody any more."""
        self._closed.set()
        self._reception.close()
        with self._lock:
            for line in self._lines:
                line.hang_up()

    def _serve(self, line: Line) -> None:
        with self._lock:
            if len(self._lines) >= LINES_MAX or self._closed.is_set():
                return
            self._lines.add(line)
        try:
            while not self._closed.is_set():
                data = line.receive(_LOOK_S)
                if data is not None:
                    self._act(line, decode_request(data))
        except (*LINE_ERRORS, msgspec.MsgspecError):
            pass  # the worker is gone, or asks again by another connection
        finally:
            with self._lock:
                self._lines.discard(line)

    def _act(self, line: Line, request: Request) -> None:
        if isinstance(request, PutRequest):
            self._put(line, request)
        elif isinstance(request, GetRequest):
            self._get(line, request)
        else:
            try:
                if isinstance(request, DeleteRequest):
                    self._store.delete(request.name)
                    answers: Iterator[Answer] = iter([DeleteAnswer()])
                else:
                    answers = _listed([(name, size_bytes) for name, size_bytes in self._store.list(request.prefix)])
            except Exception as error:  # noqa: BLE001 - told to whoever asked
                answers = iter([_failed(error)])
            for answer in answers:
                _say(line, encode_message(answer))

    def _put(self, line: Line, request: PutRequest) -> None:
        """Take all of an object in before it is written: a connection that breaks leaves nothing."""
        self._held.take(request.size_bytes)
        try:
            data = _taken(line, request.size_bytes)
            try:
                if request.pointer:
                    tag = self._store.put_if(request.name, data, request.tag)
                    answer: Answer = PutAnswer(tag is not None, tag)
                else:
                    answer = PutAnswer(self._store.put_new(request.name, data))
            except Exception as error:  # noqa: BLE001 - told to whoever asked
                answer = _failed(error)
            del data
        finally:
            self._held.give_back(request.size_bytes)
        _say(line, encode_message(answer))

    def _get(self, line: Line, request: GetRequest) -> None:
        store, name = self._store, request.name
        with self._reads:
            try:
                data, tag = store.get_tagged(name) if request.pointer else (store.get(name), "")
            except Exception as error:  # noqa: BLE001 - told to whoever asked
                _say(line, encode_message(_failed(error)))
                return
            _say(line, encode_message(ContentAnswer(len(data), tag)))
            for piece in pieces(data):
                _say(line, piece)


def _taken(line: Line, size_bytes: int) -> bytes:
    """The data that follows a request; memory is taken as it comes, not as it was announced."""
    found = bytearray()
    while len(found) < size_bytes:
        piece = line.receive(_SILENT_S)
        if piece is None or len(found) + len(piece) > size_bytes:
            raise ClosedError("the data of a request did not come as announced")
        found += piece
    return bytes(found)


def _say(line: Line, message: bytes) -> None:
    line.send(message, timeout_s=_SILENT_S)


def _listed(rows: list[tuple[str, int]]) -> Iterator[Answer]:
    for at in range(0, max(1, len(rows)), ROWS_PER_MESSAGE):
        yield ListAnswer(rows[at : at + ROWS_PER_MESSAGE], at + ROWS_PER_MESSAGE < len(rows))


def _failed(error: Exception) -> FailedAnswer:
    if isinstance(error, StoreError):
        return FailedAnswer(type(error).__name__, error.message, error.hint)
    return FailedAnswer(StoreError.__name__, f"The driver could not do it: {type(error).__name__}: {error}", "")
