"""Strangers are refused on every listener, and nothing of what they send is decoded."""

from __future__ import annotations

import ast
import os
import pickle
import socket
import struct
from functools import cache
from pathlib import Path

import pytest
from tests.unit.transport.listeners import (
    LISTENERS,
    Marker,
    framed,
    listening,
    receive,
    send,
    sources,
    wait_until_closed,
)

import tailrace
from tailrace.config import Settings
from tailrace.program.boot import Boot
from tailrace.program.errors import ProtocolError
from tailrace.transport import codec
from tailrace.transport.handshake import (
    CONTROL,
    DATA,
    MAGIC,
    TIME_LIMIT_S,
    ClientHandshake,
    HandshakeError,
    Identity,
)

ANSWER_BYTES = 64


@pytest.fixture(params=LISTENERS)
def listener(request):
    with listening(request.param) as found:
        yield found


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "marker"


def client(listener, secret=None):
    return ClientHandshake(secret or listener.secret, Identity(listener.purpose, 1, 1))


def admitted(listener):
    """Open a connection as a worker would; gives the socket and all that was sent for it."""
    sock, shake = listener.connect(), client(listener)
    sock.sendall(shake.out)
    proof = shake.feed(receive(sock, ANSWER_BYTES))
    sock.sendall(proof)
    return sock, shake.out + proof


def assert_refused(listener, sock, marker):
    wait_until_closed(sock)
    sock.close()
    assert not marker.exists()
    assert listener.taken == []
    assert listener.alive


def test_the_poison_works_where_it_is_decoded(marker):
    """Else the tests below could not fail."""
    codec.loads(pickle.dumps(Marker(marker)))
    assert marker.exists()


def test_a_peer_with_the_secret_is_heard(listener):
    sock, _ = admitted(listener)
    with sock:
        if listener.purpose == DATA:
            sock.sendall(framed(b"hello"))
            while not listener.taken:
                listener.connections.wakeup()
            assert listener.taken == [b"hello"]
        else:
            sock.sendall(framed(b"no message"))
            wait_until_closed(sock)  # it was decoded, and found to be none: the query ends by name
            assert isinstance(listener.brain.error, ProtocolError)


def test_no_secret(listener, marker):
    with listener.connect() as sock:
        send(sock, framed(listener.poison(marker)) * 3)
        assert_refused(listener, sock, marker)


def test_a_good_hello_and_no_proof(listener, marker):
    with listener.connect() as sock:
        sock.sendall(client(listener).out)
        receive(sock, ANSWER_BYTES)
        send(sock, bytes(32) + framed(listener.poison(marker)))
        assert_refused(listener, sock, marker)


def test_a_wrong_secret(listener, marker):
    wrong = os.urandom(32)
    shake = client(listener, wrong)
    with listener.connect() as sock:
        sock.sendall(shake.out)
        answer = receive(sock, ANSWER_BYTES)
        with pytest.raises(HandshakeError):
            shake.feed(answer)  # the server could not prove it either
        with pytest.raises(HandshakeError):
            client(listener).feed(answer)  # nor does its proof fit any other hello
        send(sock, answer[32:] + framed(listener.poison(marker)))  # its own proof, reflected
        assert_refused(listener, sock, marker)


def test_a_replayed_transcript(listener, marker):
    sock, transcript = admitted(listener)
    sock.close()
    with listener.connect() as again:
        send(again, transcript + framed(listener.poison(marker)))
        assert_refused(listener, again, marker)


def test_a_proof_for_the_other_kind_of_listener(listener, marker):
    other = CONTROL if listener.purpose == DATA else DATA
    with listener.connect() as sock:
        send(sock, ClientHandshake(listener.secret, Identity(other, 1, 1)).out + framed(listener.poison(marker)))
        assert_refused(listener, sock, marker)


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes(listener, marker, seed):
    size = (47, 79, 100_000)[seed]
    with listener.connect() as sock:
        send(sock, os.urandom(size))
        assert_refused(listener, sock, marker)


def test_a_good_magic_and_random_bytes(listener, marker):
    with listener.connect() as sock:
        send(sock, MAGIC + bytes([listener.purpose]) + os.urandom(38 + 32))
        assert_refused(listener, sock, marker)


@pytest.mark.parametrize("length", [(1 << 20) + 1, 2**31, 2**32 - 1])
def test_an_oversized_length_after_a_good_handshake(listener, marker, length):
    sock, _ = admitted(listener)
    with sock:
        send(sock, struct.pack("<I", length) + listener.poison(marker))
        assert_refused(listener, sock, marker)


def test_a_peer_that_stops_half_way_is_cut_off(marker, monkeypatch):
    assert TIME_LIMIT_S < 5
    monkeypatch.setattr("tailrace.transport.stream.TIME_LIMIT_S", 1.0)
    stalls = []
    with listening("coordinator") as one, listening("connections-tcp") as two, listening("connections-unix") as three:
        for listener in (one, two, three):
            hello = client(listener).out
            for opening in (b"", hello[:1], hello[:20], hello):
                sock = listener.connect()
                send(sock, opening)
                stalls.append((listener, sock))
        for listener, sock in stalls:
            assert_refused(listener, sock, marker)


# -- secrets and addresses -------------------------------------------------------------------------------------------


def test_the_secret_does_not_show():
    secret = b"not-to-be-seen-" + os.urandom(17)
    boot = Boot("query", ("127.0.0.1", 1), secret, Settings())
    for text in (repr(boot), str(boot), f"{boot}"):
        assert "not-to-be-seen" not in text
        assert "secret" not in text


def test_listeners_bind_to_the_address_they_are_given(listener):
    if listener.purpose == CONTROL:
        assert listener.loop._server.getsockname()[0] == "127.0.0.1"
    else:
        assert listener.connections.tcp_address[0] == "127.0.0.1"
        assert Path(listener.connections.endpoint.uds_path).parent.stat().st_mode & 0o777 == 0o700


@cache
def parsed():
    return {path: list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for path in sources()}


def test_no_listener_is_bound_to_all_interfaces():
    for path, nodes in parsed().items():
        for node in nodes:
            if isinstance(node, ast.Constant) and node.value in {"0.0.0.0", "::"}:
                raise AssertionError(f"{path.name}:{node.lineno} names all interfaces")
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("create_server", ".bind")):
                assert not ast.unparse(node).startswith("socket.create_server((''"), f"{path.name}:{node.lineno}"


def test_only_the_codec_unpickles():
    """And the function that Spark ships, which unpickles a part of its own closure."""
    root = Path(tailrace.__file__).parent
    found = set()
    for path, nodes in parsed().items():
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {
                "pickle.loads",
                "pickle.load",
                "pickle.Unpickler",
                "cloudpickle.loads",
                "cloudpickle.load",
                "marshal.loads",
            }:
                found.add(path.relative_to(root).as_posix())
            if isinstance(node, ast.ImportFrom) and node.module in {"pickle", "cloudpickle", "marshal"}:
                assert not {"loads", "load", "Unpickler"} & {each.name for each in node.names}, path
    assert found == {"transport/codec.py", "spark/entry.py"}


def test_a_listener_outlives_many_strangers(listener, marker):
    for _ in range(50):
        with listener.connect() as sock:
            send(sock, os.urandom(60))
    sock, _ = admitted(listener)
    with sock:
        assert isinstance(sock, socket.socket)
    assert listener.alive
    assert not marker.exists()


def test_a_crowd_of_silent_strangers_keeps_no_peer_out(listener, monkeypatch):
    """A bound for strangers; for one more the oldest of them is closed, so that a worker still gets in."""
    monkeypatch.setattr("tailrace.coordinator.loop.UNPROVED_MAX", 8)
    monkeypatch.setattr("tailrace.transport.connections.UNPROVED_MAX", 8)
    monkeypatch.setattr("tailrace.transport.stream.TIME_LIMIT_S", 600.0)
    crowd = [listener.connect() for _ in range(40)]
    try:
        sock, _ = admitted(listener)
        sock.close()
        for stranger in crowd[:32]:
            wait_until_closed(stranger)
        newest = crowd[-1]
        newest.setblocking(False)
        with pytest.raises(BlockingIOError):
            newest.recv(1)  # it still has its time
    finally:
        for each in crowd:
            each.close()
    assert listener.alive
