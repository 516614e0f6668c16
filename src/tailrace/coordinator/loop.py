"""The coordinator's loop: one thread in the driver that carries messages between the workers and the brain.

Nothing of the user's runs in it: a sink that takes its time must not cost workers their leases. ``callbacks`` has that.
"""

from __future__ import annotations

import contextlib
import logging
import math
import selectors
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tailrace import protocol
from tailrace.errors import TailraceError
from tailrace.program.errors import user_stack
from tailrace.transport.handshake import CONTROL, HandshakeError, ServerHandshake
from tailrace.transport.stream import UNPROVED_MAX, ClosedError, StreamConnection
from tailrace.transport.wire import WireError

from .errors import CoordinatorError, not_understood

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.clock import Clock

    from .brain import CoordinatorBrain

T = TypeVar("T")

_log = logging.getLogger("tailrace")
_TICK_S = 0.05
#: How long workers that were told to stop may take to hang up.
_FAREWELL_S = 2.0
#: What the selector calls a wakeup; connections are numbered from 1.
_WAKEUP = 0


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
        self._wakeup, self._woken = socket.socketpair()
        self._wakeup.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, _WAKEUP)
        self._connections: dict[int, StreamConnection] = {}
        self._slots: dict[int, int] = {}
        self._lines: dict[int, deque[bytes]] = {}
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

    def close_if_idle(self) -> None:
        """End a loop that was never started, so that nobody waits for it."""
        with self._lock:
            idle = self._thread.ident is None and not self.ended.is_set()
        if idle:
            self._close()
            self.ended.set()

    def ask(self, change: Callable[[CoordinatorBrain, int], None]) -> None:
        """Change the brain from another thread; what follows from it is done at once."""
        with self._lock:
            change(self._brain, self._clock.now_ns())
        if threading.current_thread() is not self._thread:  # its own round is not over yet
            with contextlib.suppress(OSError):  # rung often enough, or the loop has ended
                self._wakeup.send(b"\0")

    def look(self, read: Callable[[CoordinatorBrain], T]) -> T:
        """Read several things of the brain at one moment, from another thread; nothing is done for it."""
        with self._lock:
            return read(self._brain)

    def _serve(self) -> None:
        """Serve to the end; whatever escapes ends the query by name, and ``ended`` is set in any case."""
        try:
            try:
                self._rounds()
            except BaseException as error:  # noqa: BLE001 - nobody else would hear of it
                self._give_up(error)
                self._rounds()  # workers are told to stop
        except BaseException as error:  # noqa: BLE001
            _log.exception("the coordinator could not tell its workers to stop")
            self._give_up(error)
        finally:
            try:
                self._close()
            finally:
                self.ended.set()

    def _rounds(self) -> None:
        leave_s = math.inf
        while time.monotonic() < leave_s:
            for key, events in self._selector.select(_TICK_S):
                with self._lock:
                    if key.data is None:
                        self._accept()
                    elif key.data == _WAKEUP:
                        self._woken.recv(4096)
                    elif key.data in self._connections:  # else an older stranger, closed for a newer one
                        self._attend(key.data, events)
            with self._lock:
                self._brain.tick(self._clock.now_ns())
                self._cut_off_silent()
                self._carry_out()
            self.on_tick()
            if self._brain.state == "ended":
                leave_s = min(leave_s, time.monotonic() + _FAREWELL_S) if self._connections else 0.0

    def _give_up(self, error: BaseException) -> None:
        """Let the query fail by what escaped: under its own name, if it has one."""
        named = error if isinstance(error, TailraceError) else _named(error)
        with self._lock:
            self._brain.fail_even_late(named)

    def _close(self) -> None:
        """Let go of all sockets and write the last progress down."""
        with self._lock:
            for number in list(self._connections):
                self._drop(number)
            self._selector.close()
            self._wakeup.close()
            self._woken.close()
            self._server.close()
            try:
                self._brain.close_book(self._clock.now_ns())
            except Exception as error:  # noqa: BLE001 - what is lost is the last progress; say so
                self._give_up(error)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._server.accept()
            strangers = [number for number, each in self._connections.items() if not each.ready]
            if len(strangers) >= UNPROVED_MAX:
                self._drop(strangers[0])  # the oldest has had the most time to prove itself
            self._serial += 1
            connection = StreamConnection(sock, ServerHandshake(self._secret, CONTROL), self._message_bytes_max)
            self._connections[self._serial] = connection
            self._selector.register(sock, selectors.EVENT_READ, self._serial)

    def _attend(self, number: int, events: int) -> None:
        connection = self._connections[number]
        messages: list[protocol.FromWorker] = []
        try:
            if events & selectors.EVENT_READ:
                messages += map(protocol.decode_from_worker, connection.read())
            connection.write()
        except msgspec.DecodeError as error:  # it has proved the secret, so it is a worker, and of another make
            self._brain.fail(not_understood(self._slots.get(number, -1), str(error)))
            self._drop(number)
            return
        except (ClosedError, HandshakeError, WireError, OSError):
            self._drop(number)
            return
        # Outside: what the brain raises is no fault of the connection.
        for message in messages:
            self._hear(number, message)
        self._watch(number, connection)

    def _hear(self, number: int, message: protocol.FromWorker) -> None:
        if isinstance(message, protocol.Register):
            self._slots[number] = message.slot
        slot = self._slots.get(number, -1)
        self._brain.on_message(number, slot, message, self._clock.now_ns())

    def _carry_out(self) -> None:
        while self._brain.out:
            number, message = self._brain.out.popleft()
            self._lines.setdefault(number, deque()).append(protocol.encode(message))
        for number in list(self._lines):
            connection = self._connections.get(number)
            if connection is None:
                del self._lines[number]
                continue
            lines = self._lines[number]
            try:
                while lines and connection.send(lines[0]):
                    lines.popleft()
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


def _named(error: BaseException) -> CoordinatorError:
    return CoordinatorError(
        f"The coordinator of the query failed: {type(error).__name__}: {error}.",
        f"A policy of your own may be at fault; else it is a mistake in Tailrace.\n{user_stack(error)}",
    )
