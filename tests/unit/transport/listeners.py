"""Every listener of Tailrace, really listening on loopback, and what a stranger can do to it."""

from __future__ import annotations

import contextlib
import pickle
import platform
import secrets
import socket
import struct
import threading
from pathlib import Path

import msgspec

import tailrace as tr
from tailrace import protocol
from tailrace.clock import SystemClock
from tailrace.config import Policy, Settings
from tailrace.coordinator.brain import CoordinatorBrain
from tailrace.coordinator.deployment import deal_partitions
from tailrace.coordinator.loop import CoordinatorLoop
from tailrace.program.program import Program
from tailrace.topology.plan import make_plan
from tailrace.transport import wire
from tailrace.transport.connections import Connections
from tailrace.transport.handshake import CONTROL, DATA

#: Long enough for the most loaded machine; what is tested is that the socket is closed at all.
HANG_S = 30.0


class Marker:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def framed(message):
    return struct.pack("<I", len(message)) + message


class CoordinatorListener:
    """The coordinator's loop with a query of two workers that nobody has joined."""

    purpose = CONTROL

    def __init__(self):
        flow = tr.Topology("guarded")
        flow.source(tr.sources.items(["a"])).sink(tr.sinks.collect())
        plan = make_plan(flow)
        program = Program(plan, Policy(), Settings())
        self.secret = secrets.token_bytes(32)
        self.brain = CoordinatorBrain("query", program, 2, deal_partitions(plan), platform.python_version())
        self.loop = CoordinatorLoop(self.brain, SystemClock(), "127.0.0.1", self.secret, 1 << 20)
        self.loop.start()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.loop.port), timeout=HANG_S)

    def poison(self, marker):
        """Bytes that would unpickle the marker if anyone took them for a message of a worker."""
        return protocol.encode(protocol.Collected("collect", 0, pickle.dumps(Marker(marker))))

    @property
    def taken(self):
        return list(self.brain.members) + list(self.brain.received)

    @property
    def alive(self):
        return not self.loop.ended.is_set() and self.loop._thread.is_alive()

    def close(self):
        self.loop.ask(lambda brain, _: brain.stop_now())
        self.loop.join(HANG_S)


class ConnectionsListener:
    """A worker's connections, polled as its loop would."""

    purpose = DATA

    def __init__(self, kind):
        self.kind = kind
        self.secret = secrets.token_bytes(32)
        self.connections = Connections(0, self.secret, "127.0.0.1", Settings(transport="uds", frame_bytes_max=1 << 20))
        self.taken = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while not self._ended.is_set():
            self.taken += self.connections.poll()
            self.connections.cut_off_silent()
            self.connections.wait(20_000)

    def connect(self):
        if self.kind == "tcp":
            return socket.create_connection(self.connections.tcp_address, timeout=HANG_S)
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(HANG_S)
        sock.connect(self.connections.endpoint.uds_path)
        return sock

    def poison(self, marker):
        """Bytes that would unpickle the marker if anyone took them for a message of a worker."""
        values = pickle.dumps([Marker(marker)])
        payload = b"\0" + msgspec.msgpack.encode((None, [1], 256, [1], values))
        return wire.message_head(1, 1) + wire.frame_head(wire.DATA, 0, len(payload)) + payload

    @property
    def alive(self):
        return self._thread.is_alive()

    def close(self):
        self._ended.set()
        self.connections.wakeup()
        self._thread.join(HANG_S)
        self.connections.close()


LISTENERS = {
    "coordinator": CoordinatorListener,
    "connections-tcp": lambda: ConnectionsListener("tcp"),
    "connections-unix": lambda: ConnectionsListener("uds"),
}


@contextlib.contextmanager
def listening(name):
    listener = LISTENERS[name]()
    try:
        yield listener
    finally:
        listener.close()


def receive(sock, count):
    data = b""
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        if not chunk:
            raise ConnectionError("closed")
        data += chunk
    return data


def wait_until_closed(sock):
    """Read until the other end closes; a time-out of the socket fails the test."""
    with contextlib.suppress(ConnectionError):
        while sock.recv(65536):
            pass


def send(sock, data):
    """Send as much as the other end takes before it closes."""
    with contextlib.suppress(ConnectionError):
        sock.sendall(data)


def sources():
    """All Python files of the package."""
    return sorted(Path(tr.__file__).parent.rglob("*.py"))
