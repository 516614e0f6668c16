"""A store by way of the driver does what every store does; connections break, strangers get nothing."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import socket
import threading

import pytest
from tests.store_contract import StoreContract, at_once

from tailrace.checkpoint.relay.client import RelayedStore
from tailrace.checkpoint.relay.messages import MESSAGE_BYTES_MAX, PutRequest, encode_message
from tailrace.checkpoint.relay.server import HeldBytes, StoreRelay
from tailrace.checkpoint.stores import StoreFullError, StoreUnreachableError, claim
from tailrace.checkpoint.stores.folder import FolderStore
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.testing.proxy import FaultyProxy
from tailrace.transport.blocking_connection import LINE_ERRORS, Line
from tailrace.transport.handshake import STORE

_addresses = itertools.count()


@pytest.fixture
def secret():
    return secrets.token_bytes(32)


@pytest.fixture
def serve(secret):
    with contextlib.ExitStack() as stack:

        def served(store, **how):
            relay = StoreRelay(store, "127.0.0.1", secret, **how)
            relay.start()
            stack.callback(relay.close)
            return relay

        yield served


@pytest.fixture
def connect(secret):
    with contextlib.ExitStack() as stack:

        def connected(address, kind=RelayedStore):
            return stack.enter_context(contextlib.closing(kind("the store", address, secret)))

        yield connected


class TestFolder(StoreContract):
    @pytest.fixture
    def opener(self, tmp_path, serve, connect):
        relay = serve(FolderStore(tmp_path))
        return lambda: connect(("127.0.0.1", relay.port))


class TestMemory(StoreContract):
    @pytest.fixture
    def opener(self, serve, connect):
        relay = serve(MemoryStore(f"memory:{next(_addresses)}"))
        return lambda: connect(("127.0.0.1", relay.port))


class TestConnectionsThatBreakBetweenCalls(StoreContract):
    """A connection that was left for the next call is gone by then."""

    turns = 20

    @pytest.fixture
    def opener(self, serve, connect):
        relay = serve(MemoryStore(f"memory:{next(_addresses)}"))

        class Broken(RelayedStore):
            def leave_line(self, line):
                line.hang_up()
                super().leave_line(line)

        return lambda: connect(("127.0.0.1", relay.port), Broken)


def test_a_put_that_is_cut_off_is_repeated_until_it_is_there(serve, connect):
    store, data = MemoryStore(), os.urandom(2_000_000)
    relay = serve(store)
    with FaultyProxy("127.0.0.1", relay.port) as proxy:
        relayed, done = connect(proxy.address), threading.Event()

        def cut():
            while not done.is_set():
                proxy.cut()
                done.wait(0.003)

        cutter = threading.Thread(target=cut)
        cutter.start()
        broken = 0
        try:
            for number in range(6):
                for attempt in itertools.count():
                    if attempt == 20:
                        done.set()  # enough was cut
                    with contextlib.suppress(StoreUnreachableError):
                        assert claim(relayed, f"parts/{number}", data) is True
                        break
                    broken += 1
        finally:
            done.set()
            cutter.join()
        assert broken
        assert {each.name: store.get(each.name) == data for each in store.list()} == {
            f"parts/{number}": True for number in range(6)
        }
        assert claim(relayed, "parts/0", b"another's") is False


def test_errors_of_the_store_come_under_their_names(serve, connect):
    class Full(MemoryStore):
        def _put_if(self, name, data, tag):
            raise StoreFullError("Expected room to write.", "Free some.")

        def _list(self, prefix):
            raise RuntimeError("a mistake")

    relayed = connect(("127.0.0.1", serve(Full()).port))
    for _ in range(3):  # the connection goes on
        with pytest.raises(StoreFullError, match="room") as failed:
            relayed.put_new("a", bytes(1_000_000))
        assert failed.value.hint == "Free some."
    with pytest.raises(Exception, match="RuntimeError: a mistake"):
        relayed.list()


def test_a_long_listing_comes_in_parts(serve, connect):
    store = MemoryStore()
    names = [f"parts/{number:04d}{'x' * 190}" for number in range(1500)]
    for name in names:
        store.put_new(name, b"")
    assert [each.name for each in connect(("127.0.0.1", serve(store).port)).list()] == names


def test_a_driver_that_is_gone_is_a_transient_error(connect, serve):
    relay = serve(MemoryStore())
    relayed = connect(("127.0.0.1", relay.port))
    assert relayed.put_new("a", b"1")
    relay.close()
    with pytest.raises(StoreUnreachableError) as failed:
        relayed.put_new("b", b"1")
    assert failed.value.transient


@pytest.mark.parametrize("hello", [b"", b"GET / HTTP/1.1\r\n\r\n" * 9, b"\0" * 47])
def test_a_stranger_gets_nothing(serve, connect, hello):
    store = MemoryStore()
    relay = serve(store)
    threads = threading.active_count()
    with socket.create_connection(("127.0.0.1", relay.port), timeout=30) as stranger:
        stranger.sendall(hello)
        if hello:
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
        assert threading.active_count() <= threads
        assert connect(("127.0.0.1", relay.port)).put_new("a", b"1")
    with pytest.raises(LINE_ERRORS):
        Line.to(("127.0.0.1", relay.port), secrets.token_bytes(32), MESSAGE_BYTES_MAX, STORE)
    assert [each.name for each in store.list()] == ["a"]


def test_memory_is_taken_for_what_comes_and_not_for_what_is_announced(serve, connect, secret):
    store = MemoryStore()
    address = ("127.0.0.1", serve(store).port)
    with contextlib.closing(Line.to(address, secret, MESSAGE_BYTES_MAX, STORE)) as line:
        line.send(encode_message(PutRequest("a", 1 << 60)))
        line.send(b"x")
    # It has hung up, and what it had announced holds nobody up.
    assert connect(address).put_new("b", b"1")
    assert [each.name for each in store.list()] == ["b"]


def test_what_is_on_its_way_at_a_time_is_bounded(serve, connect):
    relay = serve(MemoryStore(), held_bytes_max=100_000)
    stores = [connect(("127.0.0.1", relay.port)) for _ in range(4)]
    data = os.urandom(300_000)  # larger than the bound: one at a time
    assert at_once(4, lambda number: stores[number].put_new(f"a/{number}", data)) == [True] * 4
    assert all(stores[0].get(f"a/{number}") == data for number in range(4))


def test_held_bytes_wait_for_room():
    held, came = HeldBytes(10), threading.Event()
    held.take(6)
    waiting = threading.Thread(target=lambda: (held.take(6), came.set()))
    waiting.start()
    held.take(4)
    assert not came.is_set()
    held.give_back(6)
    assert came.wait(30)
    waiting.join()
