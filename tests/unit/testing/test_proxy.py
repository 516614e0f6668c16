"""The faulty proxy: what passes, what is held, what is lost. Order and outcome only, no durations."""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import closing, contextmanager

import pytest

from tailrace.testing.proxy import THREAD_NAME, FaultyProxy

PATIENCE_S = 10.0
# How long a test watches for something that must not come. A slow machine can only make it pass, never fail.
WATCH_S = 0.15


@pytest.fixture
def target():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        yield listener


@pytest.fixture
def proxy(target):
    with FaultyProxy(*target.getsockname()) as running:
        yield running
    assert not proxy_threads()


def proxy_threads():
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


@contextmanager
def pair(proxy, target):
    """Give both ends of a connection through the proxy."""
    with socket.create_connection(proxy.address, timeout=PATIENCE_S) as near:
        far, _ = target.accept()
        far.settimeout(PATIENCE_S)
        with far:
            yield near, far


def read_exactly(end, size):
    data = b""
    while len(data) < size:
        chunk = end.recv(size - len(data))
        assert chunk, f"closed after {len(data)} of {size} bytes"
        data += chunk
    return data


def send_until_held(end, limit):
    end.settimeout(0.3)
    sent = 0
    try:
        while sent < limit:
            sent += end.send(bytes(1024 * 1024))
    except TimeoutError:
        pass
    return sent


def ends(end):
    """Read on until the connection is over, as a close or as a reset."""
    try:
        while end.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def silent(end):
    return not select.select([end], [], [], WATCH_S)[0]


def eventually(condition):
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came true"
        time.sleep(0.005)


def test_passes_bytes_both_ways_and_a_half_close(proxy, target):
    with pair(proxy, target) as (near, far):
        near.sendall(b"ping")
        near.shutdown(socket.SHUT_WR)
        assert read_exactly(far, 4) == b"ping"
        assert far.recv(1) == b""
        far.sendall(b"pong")
        assert read_exactly(near, 4) == b"pong"
    eventually(lambda: proxy.connections == 0)


def test_carries_more_than_it_may_hold(proxy, target):
    payload = bytes(range(256)) * 65536  # 16 MiB, four times what one direction holds
    with pair(proxy, target) as (near, far):
        sender = threading.Thread(target=near.sendall, args=(payload,))
        sender.start()
        assert read_exactly(far, len(payload)) == payload
        sender.join()


def test_a_reader_that_stops_pushes_back_on_the_sender(proxy, target):
    limit = 256 * 1024 * 1024
    with pair(proxy, target) as (near, far):
        sent = send_until_held(near, limit)
        assert sent < limit
        assert read_exactly(far, sent) == bytes(sent)


def test_a_delayed_byte_waits_until_the_delay_ends(proxy, target):
    with pair(proxy, target) as (near, far):
        proxy.delay(3_600_000)
        near.sendall(b"late")
        assert silent(far)
        proxy.delay(0)
        assert read_exactly(far, 4) == b"late"


def test_a_delay_keeps_order(proxy, target):
    proxy.delay(5)
    with pair(proxy, target) as (near, far):
        for index in range(50):
            near.sendall(bytes([index]))
        assert read_exactly(far, 50) == bytes(range(50))


def test_a_slow_line_holds_the_rest_until_the_rate_ends(proxy, target):
    with pair(proxy, target) as (near, far):
        proxy.rate(0.001)
        near.sendall(b"abc")
        assert read_exactly(far, 1) == b"a"
        assert silent(far)
        proxy.rate(None)
        assert read_exactly(far, 2) == b"bc"


def test_all_connections_share_the_rate(proxy, target):
    with pair(proxy, target) as (first, first_far), pair(proxy, target) as (second, second_far):
        proxy.rate(0.001)
        first.sendall(b"x")
        assert read_exactly(first_far, 1) == b"x"
        second.sendall(b"y")
        assert silent(second_far)


def test_a_partition_holds_bytes_and_heals_in_order(proxy, target):
    with pair(proxy, target) as (near, far):
        near.sendall(b"1")
        assert read_exactly(far, 1) == b"1"
        proxy.partition()
        near.sendall(b"2")
        far.sendall(b"b")
        assert silent(far)
        assert silent(near)
        near.sendall(b"3")
        proxy.heal()
        assert read_exactly(far, 2) == b"23"
        assert read_exactly(near, 1) == b"b"


def test_a_partition_hides_a_close(proxy, target):
    with pair(proxy, target) as (near, far):
        proxy.partition()
        near.close()
        assert silent(far)
        proxy.heal()
        assert ends(far)


def test_a_new_connection_hangs_during_a_partition(proxy, target):
    proxy.partition()
    with socket.create_connection(proxy.address, timeout=PATIENCE_S) as near:
        near.sendall(b"hello")
        assert silent(target)
        proxy.heal()
        far, _ = target.accept()
        with closing(far):
            assert read_exactly(far, 5) == b"hello"


def test_a_cut_ends_both_sides_and_loses_what_was_held(proxy, target):
    with pair(proxy, target) as (near, far):
        proxy.partition()
        near.sendall(b"lost")
        proxy.cut()
        assert ends(near)
        assert far.recv(4) == b""
    proxy.heal()
    with pair(proxy, target) as (near, far):
        near.sendall(b"again")
        assert read_exactly(far, 5) == b"again"


def test_leaving_during_a_partition_ends_every_thread(target):
    with FaultyProxy(*target.getsockname()) as running, pair(running, target) as (near, _far):
        running.partition()
        near.sendall(b"held")
        with socket.create_connection(running.address, timeout=PATIENCE_S):
            eventually(lambda: running.connections == 2)
            assert proxy_threads()
    assert not proxy_threads()


def test_a_refusing_target_ends_the_connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = listener.getsockname()
    with FaultyProxy(*nobody) as running, socket.create_connection(running.address, timeout=PATIENCE_S) as near:
        assert ends(near)


@pytest.mark.parametrize("rate", [0, -1])
def test_refuses_a_rate_that_is_none(proxy, rate):
    with pytest.raises(ValueError, match="above 0"):
        proxy.rate(rate)


def test_refuses_a_negative_delay(proxy):
    with pytest.raises(ValueError, match="0 ms or more"):
        proxy.delay(-1)


def test_has_no_address_outside_its_block(target):
    with pytest.raises(RuntimeError, match="with block"):
        _ = FaultyProxy(*target.getsockname()).address
