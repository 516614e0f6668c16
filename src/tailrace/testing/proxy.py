"""A TCP proxy on loopback that misbehaves on command: it delays, slows, cuts or silently partitions what it carries.

Tests and experiments put it between two peers, because kernels in containers often lack the means to disturb a link.
It opens sockets and threads of its own and touches nothing else; leaving the ``with`` block ends them all.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

THREAD_NAME = "faulty-proxy"
CHUNK_BYTES_MAX = 64 * 1024
# Chunks held per direction of a connection. Beyond them the sender is no longer read, so it feels the push back.
HELD_CHUNKS_MAX = 64
CONNECT_TIMEOUT_S = 5.0
ACCEPT_POLL_S = 0.05
# A slowed line sends pieces of this many seconds, so that a rate looks like a rate and not like bursts.
PIECE_S = 0.01


class FaultyProxy:
    """Forward connections made to ``address`` to the target, under the faults set at this moment.

    Every method may be called at any time from any thread and holds for connections already open and for new ones.
    """

    def __init__(self, target_host: str, target_port: int, *, bind_host: str = "127.0.0.1") -> None:
        self._target = (target_host, target_port)
        self._bind_host = bind_host
        self._line = _Line()
        self._lock = threading.Lock()
        self._open: set[_Connection] = set()
        self._listener: socket.socket | None = None
        self._acceptor = _thread(self._accept)

    def __enter__(self) -> Self:
        self._listener = socket.create_server((self._bind_host, 0))
        self._listener.settimeout(ACCEPT_POLL_S)
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.close()
        self._acceptor.join()
        with self._lock:
            left = list(self._open)
        for connection in left:
            connection.drop()
        for connection in left:
            connection.join()

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect instead of to the target."""
        if self._listener is None:
            raise RuntimeError("The proxy has an address only inside its with block.")
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    @property
    def connections(self) -> int:
        """Count the connections open now, those held back by a partition included."""
        with self._lock:
            return len(self._open)

    def delay(self, ms: float) -> None:
        """Let every byte arrive this much later than it was sent, in each direction; 0 ends it."""
        if ms < 0:
            raise ValueError(f"Expected a delay of 0 ms or more, found {ms}.")
        self._line.set_delay(ms / 1e3)

    def rate(self, bytes_per_s: float | None) -> None:
        """Let all connections together carry this much in each direction; None ends it."""
        if bytes_per_s is not None and bytes_per_s <= 0:
            raise ValueError(f"Expected a rate above 0 bytes per second or None, found {bytes_per_s}.")
        self._line.set_rate(bytes_per_s)

    def partition(self) -> None:
        """Hold bytes and closes in both directions without a sign to either peer, until ``heal``.

        New connections hang: the kernel completes them, but the target hears nothing of them. A piece that is being
        handed to the kernel at this very moment may still arrive.
        """
        self._line.set_held(held=True)

    def heal(self) -> None:
        """End a partition: what was held arrives, in order."""
        self._line.set_held(held=False)

    def cut(self) -> None:
        """Drop all open connections and what they hold, so that both peers notice; later ones are served."""
        with self._lock:
            present = list(self._open)
        for connection in present:
            connection.drop()

    def _accept(self) -> None:
        assert self._listener is not None  # noqa: S101 - started by __enter__ only
        with self._listener:
            while not self._line.closed:
                try:
                    client, _ = self._listener.accept()
                except TimeoutError:
                    continue
                connection = _Connection(client, self._target, self._line, self._forget)
                with self._lock:
                    self._open.add(connection)
                connection.start()

    def _forget(self, connection: _Connection) -> None:
        with self._lock:
            self._open.discard(connection)


class _Line:
    """The faults in force, and the one place where a piece of data waits for its turn."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._delay_s = 0.0
        self._rate: float | None = None
        self._held = False
        self._free_at_s = {"up": 0.0, "down": 0.0}
        self.closed = False

    def set_delay(self, delay_s: float) -> None:
        with self._changed:
            self._delay_s = delay_s
            self._changed.notify_all()

    def set_rate(self, rate: float | None) -> None:
        with self._changed:
            self._rate = rate
            self._free_at_s = dict.fromkeys(self._free_at_s, 0.0)
            self._changed.notify_all()

    def set_held(self, *, held: bool) -> None:
        with self._changed:
            self._held = held
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Let those who wait look again, because a connection was dropped."""
        with self._changed:
            self._changed.notify_all()

    @property
    def piece_bytes(self) -> int:
        rate = self._rate
        return CHUNK_BYTES_MAX if rate is None else max(1, min(CHUNK_BYTES_MAX, int(rate * PIECE_S)))

    def admit(self, connection: _Connection, direction: str, read_at_s: float, size_bytes: int) -> bool:
        """Wait until this piece may go on; False says that its connection is gone."""
        with self._changed:
            while not (self.closed or connection.dropped):
                due_s = max(read_at_s + self._delay_s, self._free_at_s[direction])
                wait_s = due_s - time.monotonic()
                if self._held:
                    self._changed.wait()
                elif wait_s > 0:
                    self._changed.wait(wait_s)
                else:
                    if self._rate is not None:
                        self._free_at_s[direction] = time.monotonic() + size_bytes / self._rate
                    return True
            return False


class _Connection:
    """One client, its socket to the target, and a reader and a writer thread for each direction."""

    def __init__(
        self, client: socket.socket, target: tuple[str, int], line: _Line, forget: Callable[[_Connection], None]
    ) -> None:
        self._client = client
        self._target = target
        self._line = line
        self._forget = forget
        self._sockets = [client]
        self._thread = _thread(self._run)
        self.dropped = False

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def drop(self) -> None:
        """End both sides now. Shutting down first wakes the threads that read or write these sockets."""
        self.dropped = True
        self._line.wake()
        for end in list(self._sockets):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        try:
            # A partition hides new connections from the target too.
            if self._line.admit(self, "up", time.monotonic(), 0):
                self._serve()
        finally:
            for end in self._sockets:
                end.close()
            self._forget(self)

    def _serve(self) -> None:
        try:
            target = socket.create_connection(self._target, timeout=CONNECT_TIMEOUT_S)
        except OSError:
            return  # the client sees its connection end, as it would see the target refuse
        target.settimeout(None)
        self._sockets.append(target)
        if self.dropped:
            return
        for end in self._sockets:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threads: list[threading.Thread] = []
        for direction, source, destination in (("up", self._client, target), ("down", target, self._client)):
            held: queue.Queue[tuple[float, bytes]] = queue.Queue(HELD_CHUNKS_MAX)
            threads += [
                _thread(_read, source, held),
                _thread(self._write, direction, held, destination),
            ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _write(self, direction: str, held: queue.Queue[tuple[float, bytes]], destination: socket.socket) -> None:
        while True:
            read_at_s, chunk = held.get()
            if not self._deliver(direction, read_at_s, chunk, destination):
                self.drop()
                _empty(held)
                return
            if not chunk:
                return

    def _deliver(self, direction: str, read_at_s: float, chunk: bytes, destination: socket.socket) -> bool:
        """Pass a chunk on in its turn. An empty one is the sender's close; it queues too, so a partition hides it."""
        sent = 0
        try:
            while True:
                piece = chunk[sent : sent + self._line.piece_bytes]
                if not self._line.admit(self, direction, read_at_s, len(piece)):
                    return False
                if not piece:
                    destination.shutdown(socket.SHUT_WR)
                    return True
                destination.sendall(piece)
                sent += len(piece)
                if sent == len(chunk):
                    return True
        except OSError:
            return False


def _thread(target: Callable[..., None], *args: object) -> threading.Thread:
    return threading.Thread(target=target, args=args, name=THREAD_NAME, daemon=True)


def _read(source: socket.socket, held: queue.Queue[tuple[float, bytes]]) -> None:
    while True:
        try:
            chunk = source.recv(CHUNK_BYTES_MAX)
        except OSError:
            chunk = b""
        held.put((time.monotonic(), chunk))
        if not chunk:
            return


def _empty(held: queue.Queue[tuple[float, bytes]]) -> None:
    """Make room for a reader that waits on a full queue; it then finds its socket shut and ends."""
    with contextlib.suppress(queue.Empty):
        while True:
            held.get_nowait()
