"""A worker's connections: its listeners, a link to each peer it sends to, and one place to wait for all of them.

Links are chosen per peer when first used: the shared-memory ring where the peer's probe file can be read (so both
stand on one node), else a Unix socket, else TCP. The loop calls ``send``, ``poll`` and ``wait``; nothing else blocks.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from typing import TYPE_CHECKING, Protocol

from mypy_extensions import mypyc_attr

from tailrace.transport.handshake import DATA, ClientHandshake, HandshakeError, Identity, ServerHandshake
from tailrace.transport.node_endpoint import NodeEndpoint, same_node
from tailrace.transport.ring import RingWriter
from tailrace.transport.segments import SegmentError
from tailrace.transport.stream import UNPROVED_MAX, ClosedError, StreamConnection
from tailrace.transport.waiting import FutexWaiter, SelectWaiter
from tailrace.transport.wire import ACKS, MESSAGE_HEAD_BYTES, WireError

if TYPE_CHECKING:
    from tailrace.config import Settings
    from tailrace.protocol import Peer
    from tailrace.transport.waiting import Waiter

_RECONNECT_S = 0.5
_RECV_RECORDS = 256
#: Sockets of a worker with a ring are looked at when it is woken, which they do, and at least this often.
_SELECT_S = 0.005
_LISTEN_BACKLOG = 128
_CONTROL = "control"
#: The kind of a message's first frame, where the message may wait.
_CAN_WAIT = bytes((ACKS,))

#: What a peer may do wrong: go away, fail to prove itself, or send what is no message.
PEER_ERRORS = (ClosedError, HandshakeError, WireError, OSError)


class HasFileno(Protocol):
    """Something a selector can watch."""

    def fileno(self) -> int:
        """The descriptor."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Connections:
    """All data connections of one worker."""

    def __init__(self, slot: int, secret: bytes, host: str, settings: Settings) -> None:
        self._slot = slot
        self._secret = secret
        self._settings = settings
        self._identity = Identity(DATA, slot, 0)
        self._selector = selectors.DefaultSelector()
        self._links: dict[int, _Link] = {}
        #: Connections of peers, oldest first.
        self._incoming: dict[StreamConnection, None] = {}
        self.reconnected: list[int] = []
        self.control_ready = False
        self._selected_s = 0.0
        self._wakeups_seen = -1
        #: What was taken on waking; None when the last thing was not to wait.
        self._early: list[tuple[int, bytes | memoryview]] | None = None
        self.endpoint = NodeEndpoint(settings)
        reader = self.endpoint.reader
        self._waiter: Waiter = (
            SelectWaiter(self._selector) if reader is None else FutexWaiter(self._selector, reader, _RECV_RECORDS)
        )
        self._tcp = self._listen(socket.create_server((host, 0), backlog=_LISTEN_BACKLOG))
        self.tcp_address: tuple[str, int] = self._tcp.getsockname()[:2]
        if self.endpoint.uds_path:
            server = socket.socket(socket.AF_UNIX)
            server.bind(self.endpoint.uds_path)
            server.listen(_LISTEN_BACKLOG)
            self._uds = self._listen(server)

    def _listen(self, server: socket.socket) -> socket.socket:
        server.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ, server)
        return server

    def admitted(self, attempt: int) -> None:
        """Take on the attempt number the coordinator granted; links prove it."""
        self._identity = Identity(DATA, self._slot, attempt)

    # -- sending -------------------------------------------------------------------------------------------------

    def introduce(self, peer: Peer) -> None:
        """Learn how to reach the worker that has a slot now; the way to the one before it is closed."""
        old = self._links.pop(peer.slot, None)
        if old is not None:
            old.close()
        self._links[peer.slot] = _Link(self, peer)

    def forget(self, slot: int) -> None:
        """Close the way to a worker that leaves."""
        link = self._links.pop(slot, None)
        if link is not None:
            link.close()

    def send(self, slot: int, message: bytes) -> bool:
        """Send a message to a peer; false when there is no room or no connection now."""
        link = self._links.get(slot)
        return link is not None and link.send(message)

    def kinds(self) -> dict[int, str]:
        """How each peer that was sent to is reached."""
        return {slot: link.kind for slot, link in self._links.items() if link.kind}

    # -- receiving -----------------------------------------------------------------------------------------------

    def poll(self) -> list[bytes | memoryview]:
        """Take in what has come, without waiting; large messages lie in the ring until ``end_borrowing``."""
        found: list[bytes | memoryview] = []
        reader = self.endpoint.reader
        if reader is not None:
            records = reader.borrow(_RECV_RECORDS) if self._early is None else self._early
            self._early = None
            found = [payload for _, payload in records]
            if not self._sockets_may_have_something(reader.ring.wakeups):
                return found  # a system call less in front of the work
        for key, events in self._selector.select(0):
            self._wakeups_seen = -1  # there may be more than is read at once
            thing = key.data
            if isinstance(thing, socket.socket):
                self._accept(thing)
            elif isinstance(thing, StreamConnection):
                if thing in self._incoming:  # else an older stranger, closed for a newer one
                    self._serve(thing, events, found)
            elif isinstance(thing, _Link):
                thing.progress(events)
            elif thing == _CONTROL:
                self.control_ready = True
        return found

    def end_borrowing(self) -> None:
        """Free what ``poll`` gave: it is read."""
        if self.endpoint.reader is not None:
            self.endpoint.reader.ring.end_borrowing()

    def _sockets_may_have_something(self, wakeups: int) -> bool:
        now_s = time.monotonic()
        if wakeups == self._wakeups_seen and now_s - self._selected_s < _SELECT_S:
            return False
        self._wakeups_seen = wakeups
        self._selected_s = now_s
        return True

    def wait(self, timeout_us: int, *, patient: bool = False) -> None:
        """Sleep until something comes, it is woken or the time is up; what came is there for ``poll``.

        A ``patient`` sleeper, whose time is short, is not woken by acks.
        """
        self._early = self._waiter.wait(timeout_us, patient=patient)

    def wakeup(self) -> None:
        """Wake the loop, from any thread."""
        self._waiter.wakeup()

    def _accept(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock, _ = server.accept()
            strangers = [each for each in self._incoming if not each.ready]
            if len(strangers) >= UNPROVED_MAX:
                self._drop(strangers[0])  # the oldest has had the most time to prove itself
            connection = StreamConnection(sock, ServerHandshake(self._secret, DATA), self._settings.frame_bytes_max)
            self._incoming[connection] = None
            self._selector.register(sock, selectors.EVENT_READ, connection)

    def _serve(self, connection: StreamConnection, events: int, found: list[bytes | memoryview]) -> None:
        try:
            if events & selectors.EVENT_READ:
                found.extend(connection.read())
            connection.write()
        except PEER_ERRORS:
            self._drop(connection)
        else:
            self.watch(connection, connection, connection.wants_write)

    def _drop(self, connection: StreamConnection) -> None:
        self._incoming.pop(connection, None)
        self._selector.unregister(connection.sock)
        connection.close()

    def watch_control(self, line: HasFileno) -> None:
        """Be woken by the control connection too; the loop reads it."""
        self._selector.register(line, selectors.EVENT_READ, _CONTROL)

    def cut_off_silent(self) -> None:
        """Close connections that have not proved themselves in time, and open those again that broke."""
        for connection in [each for each in self._incoming if each.expired]:
            self._drop(connection)
        for link in self._links.values():
            link.mend()

    def watch(self, connection: StreamConnection, thing: object, wants_write: bool) -> None:
        """Ask to be told when a connection can be read, and written if it has something to write."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wants_write else 0)
        key = self._selector.get_map().get(connection.sock)
        if key is None:
            self._selector.register(connection.sock, events, thing)
        elif key.events != events:
            self._selector.modify(connection.sock, events, thing)

    def unwatch(self, connection: StreamConnection) -> None:
        """Ask no more about a connection."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.sock)

    def connect(self, peer: Peer, kind: str) -> StreamConnection:
        """Open a connection to a peer."""
        if kind == "uds":
            sock = socket.socket(socket.AF_UNIX)
            address: str | tuple[str, int] = peer.uds
        else:
            sock = socket.socket(socket.AF_INET6 if ":" in peer.tcp[0] else socket.AF_INET)
            address = (peer.tcp[0], peer.tcp[1])
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.connect(address)
        handshake = ClientHandshake(self._secret, self._identity)
        return StreamConnection(sock, handshake, self._settings.frame_bytes_max)

    def choose(self, peer: Peer) -> str:
        """Pick the best way to a peer that the settings and the machine allow."""
        wanted = self._settings.transport
        if wanted == "tcp" or not same_node(peer):
            return "tcp"
        if peer.ring and self.endpoint.reader is not None and wanted in {"auto", "ring"}:
            return "ring"
        return "uds" if peer.uds else "tcp"

    def close(self) -> None:
        """Close everything and remove this worker's files."""
        for link in self._links.values():
            link.close()
        for connection in list(self._incoming):
            self._drop(connection)
        self._waiter.close()
        self._tcp.close()
        if self.endpoint.uds_path:
            self._uds.close()
        self._selector.close()
        self.endpoint.close()


class _Link:
    """The way to one peer: opened when first used, opened again if it breaks while the peer lives."""

    def __init__(self, connections: Connections, peer: Peer) -> None:
        self.kind = ""
        self._connections = connections
        self._peer = peer
        self._ring: RingWriter | None = None
        self._connection: StreamConnection | None = None
        self._retry_s = 0.0
        self._broken = False

    def send(self, message: bytes) -> bool:
        if self._ring is None and self._connection is None:
            self._open()
        if self._ring is not None:
            # Acks are framed last: a message that begins with them holds nothing else, and they can wait.
            kind = message[MESSAGE_HEAD_BYTES : MESSAGE_HEAD_BYTES + 1]
            # A worker often sends to several and then sleeps: it steps aside for nobody in between.
            return self._ring.send(0, message, can_wait=kind == _CAN_WAIT, aside=False)
        if self._connection is None:
            return False
        try:
            taken = self._connection.send(message)
        except OSError:
            self._lose()
            return False
        if taken and self._connection.wants_write:
            self._connections.watch(self._connection, self, wants_write=True)
        return taken

    def _open(self) -> None:
        if time.monotonic() < self._retry_s:
            return
        self._retry_s = time.monotonic() + _RECONNECT_S
        self.kind = self.kind or self._connections.choose(self._peer)
        try:
            if self.kind == "ring":
                self._ring = RingWriter(self._peer.ring)
                return
            self._connection = self._connections.connect(self._peer, self.kind)
        except (OSError, SegmentError):
            if self.kind == "ring":
                self.kind = "uds"
            return
        self._connections.watch(self._connection, self, wants_write=True)

    def mend(self) -> None:
        """Open a broken connection without waiting for something to send: the peer must learn what was lost."""
        if self._connection is not None and self._connection.expired:
            self._lose()
        if self._connection is None and self._broken:
            self._open()

    def progress(self, events: int) -> None:
        """The socket can be read or written."""
        connection = self._connection
        if connection is None:
            return
        was_ready = connection.ready
        try:
            if events & selectors.EVENT_READ:
                connection.read()
            connection.write()
        except PEER_ERRORS:
            self._lose()
            return
        if connection.ready and not was_ready and self._broken:
            self._broken = False
            self._connections.reconnected.append(self._peer.slot)
        self._connections.watch(connection, self, connection.wants_write)

    def _lose(self) -> None:
        if self._connection is not None:
            self._broken = self._broken or self._connection.ready
            self._connections.unwatch(self._connection)
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        self._broken = False
        self._lose()
        if self._ring is not None:
            self._ring.close()
            self._ring = None
