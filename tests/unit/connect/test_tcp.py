"""Lines over a real socket on the loopback interface."""

from __future__ import annotations

import socket
import time

import pytest

from tailrace.clock import FakeClock, SystemClock
from tailrace.connect import errors, sources


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


def connected(server, offset=0, clock=None):
    source = sources.socket("127.0.0.1", server.getsockname()[1])
    (partition,) = source.partitions()
    reader = source.open(partition, offset, clock or SystemClock())
    peer, _ = server.accept()
    return reader, peer


def read_until(reader, count, deadline_s=10.0):
    """Gather so many records; the deadline only keeps a failure from hanging."""
    found, until = [], time.monotonic() + deadline_s
    while len(found) < count and time.monotonic() < until:
        records = reader.read(2)
        found += zip(records.offsets, records.values, strict=True)
    return found


def test_lines_are_counted_as_they_come(server):
    reader, peer = connected(server)
    with peer:
        peer.sendall(b"one\ntwo\nthr")
        assert read_until(reader, 2) == [(0, "one"), (1, "two")]
        assert not reader.finished
        peer.sendall("ee\r\nvierundfünf".encode())
        assert read_until(reader, 1) == [(2, "three")]
    assert read_until(reader, 1) == [(3, "vierundfünf")]
    assert reader.finished
    reader.close()


def test_a_silent_server_is_asked_again_after_a_while(server):
    clock = FakeClock()
    reader, peer = connected(server, clock=clock)
    with peer:
        assert reader.wait_s() == 0
        assert reader.read(10).values == []
        assert reader.wait_s() == pytest.approx(0.01)
        clock.advance(10_000_000)
        assert reader.wait_s() == 0
    reader.close()


def test_counting_goes_on_after_a_restart(server):
    reader, peer = connected(server, offset=41)
    with peer:
        peer.sendall(b"next\n")
        assert read_until(reader, 1) == [(41, "next")]
    reader.close()


def test_no_server_and_no_port():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    source = sources.socket("127.0.0.1", port)
    assert not source.bounded
    with pytest.raises(errors.NoInputError, match=f"No server answers at 127.0.0.1:{port}"):
        source.open(source.partitions()[0], 0, SystemClock())
    for bad in (0, 65_536, "80", True):
        with pytest.raises(errors.ConnectorOptionError, match="port must be"):
            sources.socket("127.0.0.1", bad)


def test_a_broken_connection_is_named(server):
    reader, peer = connected(server)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close by reset
    peer.close()
    with pytest.raises(errors.NoInputError, match="broke after 0 lines"):
        read_until(reader, 1)
    reader.close()
