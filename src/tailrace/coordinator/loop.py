"""The coordinator's loop: one thread in the driver that carries messages between the workers and the brain."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import TYPE_CHECKING

import msgspec

from tailrace import protocol
from tailrace.transport.handshake import CONTROL, HandshakeError, ServerHandshake
from tailrace.transport.stream import UNPROVED_MAX, ClosedError, StreamConnection
from tailrace.transport.wire import WireError

from .brain import not_understood

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.clock import Clock

    from .brain import CoordinatorBrain

_TICK_S = 0.05
_FAREWELL_TICKS = 40
#: What the selector calls the bell; connections are numbered from 1.
_BELL = 0


class CoordinatorLoop:
    """Listens on the driver's address; serves until the brain has ended and everyone was told."""

    def __init__(self, brain: CoordinatorBrain, clock: Clock, host: str, secret: bytes, message_bytes_max: int) -> None:
        self._brain = brain
        self._clock = clock
        self._secret = secret
        self._message_bytes_max = message_bytes_max
        self._selector = selectors.DefaultSelector()
        self._server = socket.create_server((host, 0))
        self._server.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ, None)
        self._bell, self._rung = socket.socketpair()
        self._bell.setblocking(False)
        self._rung.setblocking(False)
        self._selector.register(self._rung, selectors.EVENT_READ, _BELL)
        self._connections: dict[int, StreamConnection] = {}
        self._slots: dict[int, int] = {}
        self._lines: dict[int, list[bytes]] = {}
        self._lock = threading.RLock()
        self._serial = 0
        self._thread = threading.Thread(target=self._serve, name="tailrace-coordinator", daemon=True)
        self.ended = threading.Event()
        self.on_tick: Callable[[], None] = lambda: None

    @property
    def port(self) -> int:
        """Where workers connect to."""
        return int(self._server.getsockname()[1])

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until the loop has ended."""
        self._thread.join(timeout_s)

    def ask(self, change: Callable[[CoordinatorBrain, int], None]) -> None:
        """Change the brain from another thread; what follows from it is done at once."""
        with self._lock:
            change(self._brain, self._clock.now_ns())
        if threading.current_thread() is not self._thread:  # its own round is not over yet
            with contextlib.suppress(OSError):  # rung often enough, or the loop has ended
                self._bell.send(b"\0")

    def _serve(self) -> None:
        farewell = 0
        while farewell < _FAREWELL_TICKS:
            for key, events in self._selector.select(_TICK_S):
                with self._lock:
                    if key.data is None:
                        self._accept()
                    elif key.data == _BELL:
                        self._rung.recv(4096)
                    else:
                        self._attend(key.data, events)
            with self._lock:
                self._brain.tick(self._clock.now_ns())
                self._cut_off_silent()
                self._carry_out()
            self.on_tick()
            if self._brain.state == "ended":
                farewell = _FAREWELL_TICKS if not self._connections else farewell + 1
        for number in list(self._connections):
            self._drop(number)
        self._brain.close_book(self._clock.now_ns())
        self.on_tick()
        self._selector.close()
        self._bell.close()
        self._rung.close()
        self._server.close()
        self.ended.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._server.accept()
            if sum(not each.ready for each in self._connections.values()) >= UNPROVED_MAX:
                sock.close()
                return
            self._serial += 1
            connection = StreamConnection(sock, ServerHandshake(self._secret, CONTROL), self._message_bytes_max)
            self._connections[self._serial] = connection
            self._selector.register(sock, selectors.EVENT_READ, self._serial)

    def _attend(self, number: int, events: int) -> None:
        connection = self._connections[number]
        try:
            if events & selectors.EVENT_READ:
                for data in connection.read():
                    self._hear(number, protocol.decode_from_worker(data))
            connection.write()
        except msgspec.DecodeError as error:  # it has proved the secret, so it is a worker, and of another make
            self._brain.fail(not_understood(self._slots.get(number, -1), str(error)))
            self._drop(number)
            return
        except (ClosedError, HandshakeError, WireError, OSError):
            self._drop(number)
            return
        self._watch(number, connection)

    def _hear(self, number: int, message: protocol.FromWorker) -> None:
        if isinstance(message, protocol.Register):
            self._slots[number] = message.slot
        slot = self._slots.get(number, -1)
        self._brain.on_message(number, slot, message, self._clock.now_ns())

    def _carry_out(self) -> None:
        while self._brain.out:
            number, message = self._brain.out.popleft()
            self._lines.setdefault(number, []).append(protocol.encode(message))
        for number in list(self._lines):
            connection = self._connections.get(number)
            if connection is None:
                del self._lines[number]
                continue
            lines = self._lines[number]
            try:
                while lines and connection.send(lines[0]):
                    lines.pop(0)
            except OSError:
                self._drop(number)
                continue
            if not lines:
                del self._lines[number]
            self._watch(number, connection)

    def _watch(self, number: int, connection: StreamConnection) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.wants_write else 0)
        if self._selector.get_key(connection.sock).events != events:
            self._selector.modify(connection.sock, events, number)

    def _cut_off_silent(self) -> None:
        for number in [number for number, each in self._connections.items() if each.expired]:
            self._drop(number)

    def _drop(self, number: int) -> None:
        connection = self._connections.pop(number)
        self._selector.unregister(connection.sock)
        connection.close()
        self._lines.pop(number, None)
        if self._slots.pop(number, None) is not None:
            self._brain.on_gone(number, self._clock.now_ns())
