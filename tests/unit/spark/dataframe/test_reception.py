"""Strangers at the ports of the DataFrame side take no threads, cannot keep those out who belong, and are cut off."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time

import pytest

from tailrace.spark.dataframe import messages
from tailrace.spark.dataframe.feed_server import FeedServer
from tailrace.transport.blocking_connection import Line
from tailrace.transport.reception import Reception
from tailrace.transport.stream import UNPROVED_MAX

WAIT_S = 30
BYTES_MAX = 1 << 20


@pytest.fixture
def secret():
    return secrets.token_bytes(32)


@pytest.fixture
def feed_server(secret):
    made = FeedServer("127.0.0.1", secret, BYTES_MAX)
    made.open(0, {"lane-0": 1})
    made.start()
    yield made
    made.close()


@pytest.fixture
def strangers(feed_server):
    with contextlib.ExitStack() as stack:

        def come(number):
            return [
                stack.enter_context(socket.create_connection(("127.0.0.1", feed_server.port), timeout=WAIT_S))
                for _ in range(number)
            ]

        yield come


def cut_off(sock):
    """Wait for the other end to close."""
    sock.settimeout(WAIT_S)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def threads_called(name):
    return [thread.name for thread in threading.enumerate()].count(name)


def until(condition):
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def ask(line):
    line.send(messages.encode(messages.Finished(0, 0, 0, 0)))
    return messages.decode_from_desk(line.receive(WAIT_S))


def test_strangers_take_no_thread_and_the_oldest_go_first(feed_server, strangers, secret):
    before = threading.active_count()
    crowd = strangers(UNPROVED_MAX + 150)
    assert all(cut_off(stranger) for stranger in crowd[:150])
    line = Line.to(("127.0.0.1", feed_server.port), secret, BYTES_MAX)
    with contextlib.closing(line):
        assert isinstance(ask(line), messages.Noted)
        assert threading.active_count() <= before + 1, "one for the line that proved itself"


def test_a_stranger_that_says_nothing_or_nonsense_is_cut_off(strangers, monkeypatch):
    monkeypatch.setattr("tailrace.transport.stream.TIME_LIMIT_S", 0.5)
    silent, talking = strangers(2)
    talking.sendall(b"GET / HTTP/1.1\r\nHost: somewhere\r\nUser-Agent: nobody\r\n\r\n")
    assert cut_off(talking)
    assert cut_off(silent)


def test_a_line_that_was_proved_outlives_any_number_of_strangers(feed_server, strangers, secret):
    with contextlib.closing(Line.to(("127.0.0.1", feed_server.port), secret, BYTES_MAX)) as line:
        assert cut_off(strangers(UNPROVED_MAX + 1)[0])
        assert isinstance(ask(line), messages.Noted)


def test_a_message_that_comes_with_the_proof_is_not_lost(secret):
    heard = []
    reception = Reception("127.0.0.1", secret, BYTES_MAX, "test-reception")
    reception.start(lambda line: heard.append(line.receive(WAIT_S)))
    with contextlib.closing(Line.to(reception.address, secret, BYTES_MAX)) as line:
        line.send(b"at once")
        until(lambda: heard)
    reception.close()
    assert heard == [b"at once"]


def test_closing_ends_the_thread_and_frees_the_port(secret):
    reception = Reception("127.0.0.1", secret, BYTES_MAX, "test-reception")
    reception.start(lambda line: None)
    assert threads_called("test-reception") == 1
    with socket.create_connection(reception.address, timeout=WAIT_S) as stranger:
        reception.close()
        assert cut_off(stranger)
    until(lambda: not threads_called("test-reception"))
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(reception.address, timeout=WAIT_S)
