"""Connections over a real socket pair: handshake first, whole messages, a bound on what waits."""

from __future__ import annotations

import random
import socket

import pytest

from tailrace.transport import stream
from tailrace.transport.handshake import DATA, ClientHandshake, HandshakeError, Identity, ServerHandshake
from tailrace.transport.stream import BACKLOG_BYTES_MAX, ClosedError, StreamConnection
from tailrace.transport.wire import WireError

SECRET = bytes(32)
LIMIT = 4 * 1024 * 1024


@pytest.fixture
def ends():
    left, right = socket.socketpair()
    client = StreamConnection(left, ClientHandshake(SECRET, Identity(DATA, 1, 1)), LIMIT)
    server = StreamConnection(right, ServerHandshake(SECRET, DATA), LIMIT)
    yield client, server
    client.close()
    server.close()


def shake(client, server):
    while not (client.ready and server.ready):
        for end in (client, server):
            end.write()
            assert end.read() == []


def pump(sender, receiver, count):
    found = []
    while len(found) < count:
        sender.write()
        found += receiver.read()
    return found


def test_nothing_is_taken_before_the_handshake(ends):
    client, server = ends
    assert not client.send(b"early")
    shake(client, server)
    assert client.send(b"late")
    assert pump(client, server, 1) == [b"late"]


def test_messages_arrive_whole_and_in_order_both_ways(ends):
    client, server = ends
    shake(client, server)
    rng = random.Random(1)
    messages = [rng.randbytes(rng.choice([0, 1, 100, 70_000])) for _ in range(40)]
    for sender, receiver in ((client, server), (server, client)):
        left, found = list(messages), []
        while len(found) < len(messages):
            while left and sender.send(left[0]):
                left.pop(0)
            found += pump(sender, receiver, 1)
        assert found == messages


def test_a_full_connection_takes_no_further_message(ends):
    client, server = ends
    shake(client, server)
    taken = 0
    while client.send(bytes(100_000)):
        taken += 1
        assert taken < 1000
    assert client.wants_write
    assert len(client._out) <= BACKLOG_BYTES_MAX + 100_004
    assert [len(each) for each in pump(client, server, taken)] == [100_000] * taken
    assert client.send(b"more")


def test_a_message_as_long_as_allowed_passes_and_a_longer_one_does_not(ends):
    client, server = ends
    shake(client, server)
    assert client.send(bytes(LIMIT))
    assert len(pump(client, server, 1)[0]) == LIMIT
    client.send(bytes(LIMIT + 1))
    with pytest.raises(WireError, match="frame_bytes_max"):
        pump(client, server, 1)


def test_a_peer_that_leaves_is_noticed(ends):
    client, server = ends
    shake(client, server)
    client.close()
    with pytest.raises(ClosedError):
        pump(server, server, 1)


def test_a_wrong_secret_is_noticed_by_the_client_first():
    left, right = socket.socketpair()
    client = StreamConnection(left, ClientHandshake(SECRET, Identity(DATA, 1, 1)), LIMIT)
    server = StreamConnection(right, ServerHandshake(bytes(31) + b"x", DATA), LIMIT)
    client.write()
    server.read()
    server.write()
    with pytest.raises(HandshakeError):
        client.read()
    assert not client.ready
    client.close()
    server.close()


def test_it_expires_unless_it_was_proved_in_time(ends, monkeypatch):
    client, server = ends
    assert not server.expired
    late_s = server._deadline_s + 0.001
    monkeypatch.setattr(stream.time, "monotonic", lambda: late_s)
    assert server.expired
    shake(client, server)
    assert not server.expired
