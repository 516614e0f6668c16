"""Workers connected in every way there is: order, room, replaced peers, broken connections."""

from __future__ import annotations

import threading
import time

import msgspec
import pytest

from tailrace.config import Settings
from tailrace.program.boot import WorkerLocation
from tailrace.transport import node_endpoint as nooks
from tailrace.transport.connections import Connections
from tailrace.worker import main

SECRET = bytes(range(32))
HANG_S = 30.0


def connections_of(slot, transport, **settings):
    return Connections(slot, SECRET, "127.0.0.1", Settings(transport=transport, **settings))


def peer_of(connections, slot, **changes):
    registered = main._registration(WorkerLocation(slot, 1, "executor", "here"), connections).peer
    return msgspec.structs.replace(registered, **{"attempt": 1, **changes})


@pytest.fixture(params=["ring", "uds", "tcp"])
def pair(request):
    if request.param == "ring":
        pytest.importorskip("tailrace.transport._ring", reason="the ring was not built")
    with_peers = [connections_of(slot, request.param) for slot in (0, 1)]
    one, other = with_peers
    one.introduce(peer_of(other, 1))
    other.introduce(peer_of(one, 0))
    yield one, other, request.param
    for connections in with_peers:
        connections.close()


def send_all(sender, receiver, messages, slot=1):
    """Send in order, letting both ends do their part; gives what arrived."""
    left, found = list(messages), []
    deadline_s = time.monotonic() + HANG_S
    while len(found) < len(messages):
        while left and sender.send(slot, left[0]):
            left.pop(0)
        sender.poll()
        sender.cut_off_silent()
        found += receiver.poll()
        assert time.monotonic() < deadline_s, f"{len(found)} of {len(messages)} arrived"
    return found


def test_messages_arrive_in_order_both_ways(pair):
    one, other, kind = pair
    messages = [bytes([number % 256]) * (1 + 37 * number % 9000) for number in range(300)]
    assert send_all(one, other, messages) == messages
    assert send_all(other, one, messages[::-1], slot=0) == messages[::-1]
    assert one.kinds() == {1: kind}


def test_a_message_longer_than_the_ring_or_the_backlog_arrives(pair):
    one, other, _ = pair
    messages = [b"before", bytes(2_500_000), b"after"]
    assert send_all(one, other, messages) == messages


def test_a_peer_that_reads_nothing_pushes_back_and_then_gets_all(pair):
    one, other, _ = pair
    send_all(one, other, [b"open"])
    taken = 0
    while one.send(1, taken.to_bytes(4, "little") * 5000):
        taken += 1
        assert taken < 5000, "nothing pushed back"
    found = send_all(one, other, [])
    deadline_s = time.monotonic() + HANG_S
    while len(found) < taken and time.monotonic() < deadline_s:
        one.poll()
        found += other.poll()
    assert [int.from_bytes(each[:4], "little") for each in found] == list(range(taken))


def test_an_unknown_peer_gets_nothing(pair):
    one, *_ = pair
    assert not one.send(9, b"x")


def test_after_an_introduction_only_the_new_worker_is_reached(pair):
    one, other, kind = pair
    send_all(one, other, [b"to the old one"])
    successor = connections_of(1, kind)
    try:
        one.introduce(peer_of(successor, 1, attempt=2))
        assert send_all(one, successor, [b"to the new one"]) == [b"to the new one"]
        assert other.poll() == []
    finally:
        successor.close()


def test_a_waiting_worker_is_woken_by_a_message_and_by_a_wakeup(pair):
    one, other, _ = pair
    send_all(one, other, [b"open"])
    assert one.send(1, b"wake")
    found = []
    deadline_s = time.monotonic() + HANG_S
    while not found and time.monotonic() < deadline_s:
        one.poll()
        other.wait(int(HANG_S * 1e6))
        found = other.poll()
    assert found == [b"wake"]
    other.wakeup()
    other.wait(int(HANG_S * 1e6))


@pytest.mark.parametrize("kind", ["uds", "tcp"])
def test_a_broken_connection_is_mended_though_there_is_nothing_to_send(kind):
    one, other = connections_of(0, kind), connections_of(1, kind)
    try:
        one.introduce(peer_of(other, 1))
        send_all(one, other, [b"open"])
        for connection in list(other._incoming):
            other._drop(connection)
        deadline_s = time.monotonic() + HANG_S
        while not one.reconnected and time.monotonic() < deadline_s:
            one.poll()
            one.cut_off_silent()
            other.poll()
        assert one.reconnected == [1]
        assert send_all(one, other, [b"again"]) == [b"again"]
    finally:
        one.close()
        other.close()


def test_workers_on_another_node_are_reached_by_tcp():
    """Whoever cannot read the probe stands elsewhere, whatever its host name says."""
    one, other = connections_of(0, "auto"), connections_of(1, "auto")
    try:
        assert nooks.same_node(peer_of(other, 1))
        for changes in ({"probe_nonce": "0" * 32}, {"probe_nonce": ""}, {"probe_path": "/nowhere/probe"}):
            elsewhere = peer_of(other, 1, **changes)
            assert not nooks.same_node(elsewhere)
            assert one.choose(elsewhere) == "tcp"
    finally:
        one.close()
        other.close()


def test_without_a_ring_of_the_peers_a_unix_socket_is_taken():
    one, other = connections_of(0, "auto"), connections_of(1, "uds")
    try:
        assert one.choose(peer_of(other, 1)) == "uds"
        assert other.endpoint.why_no_ring == "the setting transport is 'uds'"
    finally:
        one.close()
        other.close()


@pytest.mark.parametrize("waiting", ["futex", "spin_then_futex", "busy"])
def test_a_message_wakes_a_worker_however_it_waits_at_its_ring(waiting):
    pytest.importorskip("tailrace.transport._ring", reason="the ring was not built")
    sender, reader = connections_of(0, "ring"), connections_of(1, "ring", ring_waiting=waiting)
    sender.introduce(peer_of(reader, 1))
    late = threading.Timer(0.05, sender.send, (1, b"hello"))
    late.start()
    found: list[bytes] = []
    deadline_s = time.monotonic() + HANG_S
    while not found and time.monotonic() < deadline_s:
        reader.wait(5_000_000)
        found = reader.poll()
    late.join()
    assert found == [b"hello"]
    sender.close()
    reader.close()


@pytest.mark.parametrize("transport", ["ring", "uds"])
def test_a_thread_may_ring_after_everything_was_closed(transport):
    if transport == "ring":
        pytest.importorskip("tailrace.transport._ring", reason="the ring was not built")
    connections = connections_of(0, transport)
    connections.close()
    connections.wakeup()
