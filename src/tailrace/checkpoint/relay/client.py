"""The store that workers have where only the driver reaches the real one: calls are requests to the driver's relay.

Called from any thread; a call has a connection for itself and leaves it for the next. A connection that breaks is a
transient error, after which nobody knows whether a write took place, as with every other store.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tailrace.checkpoint.relay.messages import (
    MESSAGE_BYTES_MAX,
    ContentAnswer,
    DeleteAnswer,
    DeleteRequest,
    FailedAnswer,
    GetRequest,
    ListAnswer,
    ListRequest,
    PutAnswer,
    PutRequest,
    Request,
    decode_answer,
    encode_message,
    pieces,
)
from tailrace.checkpoint.stores import errors
from tailrace.checkpoint.stores.store import ObjectInfo, ObjectStore, Tagged
from tailrace.transport.blocking_connection import LINE_ERRORS, Line
from tailrace.transport.handshake import STORE
from tailrace.transport.stream import ClosedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from typing_extensions import Self

A = TypeVar("A", bound=msgspec.Struct)

#: How long the driver may take to write an object or to begin with one that was asked for.
_ANSWER_S = 60.0
#: Connections that are kept for the next call.
_IDLE_MAX = 2
_KINDS = {
    kind.__name__: kind
    for kind in (
        errors.StoreFullError, errors.StorePermissionError, errors.StoreUnreachableError, errors.ObjectMissingError,
        errors.ObjectNameError, errors.StoreAddressError, errors.StoreUnsupportedError,
    )
}  # fmt: skip


class RelayedStore(ObjectStore):
    """The store of a query, by way of its driver."""

    reachable_from_workers = True

    def __init__(self, address: str, relay: tuple[str, int], secret: bytes) -> None:
        super().__init__(address)
        self._relay = relay
        self._secret = secret
        self._idle: list[Line] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def _put_new(self, name: str, data: bytes) -> bool:
        return self._put(PutRequest(name, len(data)), data).done

    def _put_if(self, name: str, data: bytes, tag: str | None) -> str | None:
        return self._put(PutRequest(name, len(data), pointer=True, tag=tag), data).tag

    def _get(self, name: str) -> bytes:
        return self._content(GetRequest(name)).data

    def _get_tagged(self, name: str) -> Tagged:
        return self._content(GetRequest(name, pointer=True))

    def _put(self, request: PutRequest, data: bytes) -> PutAnswer:
        with _Call(self, request) as call:
            for piece in pieces(data):
                call.send(piece)
            return call.answer(PutAnswer)

    def _content(self, request: GetRequest) -> Tagged:
        with _Call(self, request) as call:
            answer = call.answer(ContentAnswer)
            data = bytearray()
            while len(data) < answer.size_bytes:
                data += call.receive()
            return Tagged(bytes(data), answer.tag)

    def _delete(self, name: str) -> None:
        with _Call(self, DeleteRequest(name)) as call:
            call.answer(DeleteAnswer)

    def _list(self, prefix: str) -> Sequence[ObjectInfo]:
        with _Call(self, ListRequest(prefix)) as call:
            answer = call.answer(ListAnswer)
            rows = answer.rows
            while answer.more:
                answer = call.answer(ListAnswer)
                rows += answer.rows
            return [ObjectInfo(*row) for row in rows]

    def take_line(self) -> Line:
        """A connection that is open as far as is known."""
        with self._lock:
            while self._idle:
                line = self._idle.pop()
                if line.is_quiet:
                    return line
                line.close()
        return Line.to(self._relay, self._secret, MESSAGE_BYTES_MAX, STORE)

    def leave_line(self, line: Line) -> None:
        """Keep a connection for the next call, unless enough are kept."""
        with self._lock:
            if len(self._idle) < _IDLE_MAX:
                self._idle.append(line)
                return
        line.close()


class _Call:
    """One request on a connection, which is kept only if all of the answer has come."""

    def __init__(self, store: RelayedStore, request: Request) -> None:
        self._store = store
        self._request = request
        self._line: Line | None = None

    def __enter__(self) -> Self:
        try:
            self._line = self._store.take_line()
            self._line.send(encode_message(self._request), timeout_s=_ANSWER_S)
        except BaseException as error:
            self._end(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        line, self._line = self._line, None
        if line is not None:
            if error is None or isinstance(error, _RefusedError):
                self._store.leave_line(line)
            else:
                line.close()
        if isinstance(error, _RefusedError):
            raise error.named from None
        if isinstance(error, (*LINE_ERRORS, msgspec.MsgspecError)):
            raise errors.StoreUnreachableError(
                f"Expected an answer of the driver, by way of which {self._store.address} is reached; found "
                f"{type(error).__name__}: {error}.",
                "Can the executors reach the driver's address on all ports, and does the driver live?",
            ) from error

    def send(self, piece: bytes) -> None:
        """Send a piece of data."""
        self._open.send(piece, timeout_s=_ANSWER_S)

    def receive(self) -> bytes:
        """The next message."""
        data = self._open.receive(_ANSWER_S)
        if data is None:
            raise ClosedError(f"nothing came for {_ANSWER_S:g} s")
        return data

    def answer(self, kind: type[A]) -> A:
        """The answer, of the kind that belongs to the request; raises what the store has raised."""
        found = decode_answer(self.receive())
        if isinstance(found, FailedAnswer):
            raise _RefusedError(_KINDS.get(found.kind, errors.StoreError)(found.message, found.hint))
        if not isinstance(found, kind):
            raise ClosedError(f"a {kind.__name__} was expected, and a {type(found).__name__} came")
        return found

    @property
    def _open(self) -> Line:
        if self._line is None:
            raise ClosedError("the call is over")
        return self._line


class _RefusedError(Exception):
    """The store has answered, with an error; the connection is as good as before."""

    def __init__(self, named: errors.StoreError) -> None:
        super().__init__(named.message)
        self.named = named
