"""Messages that one side does not know: an error by name, never a connection that is dropped in silence."""

from __future__ import annotations

import platform
import threading

import msgspec
import pytest

import tailrace as tr
from tailrace import protocol
from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.program.errors import ProtocolError
from tailrace.version import __version__
from tailrace.worker.control import ControlLine, _decoded

UNKNOWN = msgspec.msgpack.encode({"type": "FromTheFuture", "slot": 0})


class OneThatSpeaksAnotherTongue:
    """A host whose worker registers and then says something new."""

    driver_host = bind_host = "127.0.0.1"
    session = ""
    workers = 1

    def launch(self, boot):
        threading.Thread(target=self._speak, args=(boot,), daemon=True).start()

    def _speak(self, boot):
        line = ControlLine(boot.address, boot.secret, 0, 1 << 20)
        peer = protocol.Peer(0, 0, "127.0.0.1", ("127.0.0.1", 1))
        line.register(protocol.Register(0, 1, 1, "executor", peer, __version__, platform.python_version()))
        line._connection.send(UNKNOWN)
        line.flush(10.0)

    def failure(self):
        return None

    def stop(self, timeout_s):
        pass

    def describe(self):
        return "a test"


def test_a_message_that_the_coordinator_does_not_know_fails_the_query_by_name():
    flow = tr.Topology("tongues")
    flow.source(tr.sources.rate(10)).sink(tr.sinks.discard())
    with pytest.raises(ProtocolError, match=r"Worker 0 said something .*FromTheFuture"):
        Query(flow, OneThatSpeaksAnotherTongue(), Policy(), Settings()).start()


def test_a_message_that_a_worker_does_not_know_is_an_error_by_name():
    with pytest.raises(ProtocolError, match="FromTheFuture"):
        _decoded(UNKNOWN)
