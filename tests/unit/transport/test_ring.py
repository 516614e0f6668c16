"""The ring through its Python face, in one process: what goes in comes out, once, in order, and misuse is refused."""

from __future__ import annotations

import errno
import os
import signal
import socket
import struct
import threading
from collections import deque
from pathlib import Path
from select import EPOLLET, EPOLLIN, epoll

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import examples
from tests.queries import until

from tailrace.transport import ring as face
from tailrace.transport.segments import Folder, ForeignSegmentError, NoSharedMemoryError

if not face.AVAILABLE:
    pytest.skip(face.WHY_NOT, allow_module_level=True)

from tailrace.transport._ring import Ring

LONG_US = 20_000_000
#: From this size on a message is lent, not copied.
LENT_BYTES = 4096
VERSION_AT, PID_NAMESPACE_AT = 8, 24


@pytest.fixture
def folder():
    made = Folder.make(watched=False)
    yield made.path
    made.close()


def names(folder):
    return [entry.name for entry in folder.iterdir()]


@pytest.fixture
def ring(folder):
    made = Ring.create(str(folder / "ring"), 65536)
    yield made
    made.close()


def test_messages_come_out_once_in_order_with_their_targets(ring):
    sent = [(i * 3, bytes([i % 256]) * i) for i in range(60)]
    assert all(ring.post(target, payload, 0) for target, payload in sent)
    assert ring.receive(25, 0) + ring.receive(25, 0) + ring.receive(25, 0) == sent
    assert ring.receive(64, 0) == []
    assert ring.used_bytes == 0


def test_any_buffer_can_be_sent(ring):
    assert ring.post(1, bytearray(b"ab"), 0)
    assert ring.post(2, memoryview(b"xcdx")[1:3], 0)
    assert ring.receive(64, 0) == [(1, b"ab"), (2, b"cd")]


def test_a_full_ring_pushes_back_and_goes_on_after_reading(ring):
    sent = 0
    while ring.post(0, b"x" * 1000, 0):
        sent += 1
    assert 50 <= sent <= 65
    assert not ring.post(0, b"x" * 1000, 1000)
    assert ring.full_count == 2
    assert len(ring.receive(1000, 0)) == sent
    assert ring.post(0, b"x" * 1000, 0)


def test_a_message_over_a_quarter_is_sent_by_a_side_file(ring, folder):
    large = os.urandom(ring.max_message_bytes + 1)
    assert ring.post(1, b"before", 0)
    assert ring.post(2, large, 0)
    assert len(names(folder)) == 2
    assert ring.post(3, b"after", 0)
    assert ring.receive(64, 0) == [(1, b"before"), (2, large), (3, b"after")]
    assert names(folder) == ["ring"]


def test_large_messages_are_bounded_by_the_ring_not_by_memory(ring):
    sent = 0
    while ring.post(0, b"x" * 100_000, 0):
        sent += 1
    assert sent == 3
    assert len(ring.receive(64, 0)) == 3


def test_send_waits_for_room_while_another_thread_reads(ring):
    while ring.post(0, b"x" * 1000, 0):
        pass
    reader = threading.Timer(0.05, ring.receive, (1000, 0))
    reader.start()
    assert ring.post(1, b"late" * 250, LONG_US)
    reader.join()
    assert (1, b"late" * 250) in ring.receive(1000, 0)


@pytest.mark.parametrize("strategy", face.Waiting)
def test_every_strategy_wakes_at_a_record_and_gives_up_at_the_timeout(ring, strategy):
    ring.set_waiting(int(strategy), 20)
    assert not ring.wait(2000)
    other = Ring.attach(ring.path)
    sender = threading.Timer(0.03, other.post, (5, b"news", 0))
    sender.start()
    assert ring.wait(LONG_US)
    assert ring.receive(64, 0) == [(5, b"news")]
    sender.join()
    other.close()


def test_a_wakeup_counts_once(ring):
    waker = threading.Timer(0.03, ring.wakeup)
    waker.start()
    assert ring.wait(-1)
    waker.join()
    ring.wakeup()
    assert ring.wait(0)
    assert not ring.wait(0)


def test_a_socket_wakes_the_ring_through_watch_fd(ring):
    here, there = socket.socketpair()
    with here, there, epoll() as watched:
        watched.register(there, EPOLLIN | EPOLLET)
        watcher = threading.Thread(target=ring.watch_fd, args=(watched.fileno(),), daemon=True)
        watcher.start()
        for _ in range(3):
            here.send(b"x")
            assert ring.wait(LONG_US)
        ring.stop_watching()
        watcher.join(10)
        assert not watcher.is_alive()


def test_a_signal_handler_runs_during_a_wait(ring):
    class Woken(Exception):  # noqa: N818
        pass

    def wake(_number, _frame):
        raise Woken

    before = signal.signal(signal.SIGALRM, wake)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Woken):
            ring.wait(LONG_US)
    finally:
        signal.signal(signal.SIGALRM, before)


def until_consumed_elsewhere(ring):
    """Wait until another thread is inside a call that takes from the ring."""
    with pytest.raises(RuntimeError, match="two threads"):
        until(lambda: ring.receive(64, 0), "a call beside this one")


def test_closing_ends_a_wait_in_another_thread(folder):
    ring = Ring.create(str(folder / "ring"), 65536)
    waiter = threading.Thread(target=ring.wait, args=(-1,))
    waiter.start()
    until_consumed_elsewhere(ring)
    ring.close()
    waiter.join(60)
    assert not waiter.is_alive()
    with pytest.raises(ValueError, match="closed"):
        ring.receive(64, 0)


def test_two_threads_may_not_consume_through_one_handle(ring):
    waiter = threading.Thread(target=ring.wait, args=(LONG_US,))
    waiter.start()
    until_consumed_elsewhere(ring)
    ring.wakeup()
    waiter.join()


def test_what_is_lent_to_one_handle_is_not_given_to_another(ring):
    other = Ring.attach(ring.path)
    sent = [os.urandom(LENT_BYTES) for _ in range(2)]
    assert all(ring.post(0, payload, 0) for payload in sent)
    assert ring.borrow(1, 0) == [(0, sent[0])]
    assert other.borrow(5, 0) == [(0, sent[1])]
    assert ring.receive(5, 0) == []
    other.end_borrowing()
    assert ring.used_bytes == 0
    other.close()


def test_what_was_lent_counts_as_read_when_its_reader_closes(ring):
    other = Ring.attach(ring.path)
    assert ring.post(3, os.urandom(LENT_BYTES), 0)
    assert len(other.borrow(1, 0)) == 1
    other.close()
    assert ring.receive(64, 0) == []
    assert ring.used_bytes == 0


def test_resizing_keeps_messages_and_respects_the_bound(folder):
    ring = Ring.create(str(folder / "ring"), 16384, 65536)
    assert (ring.ring_bytes, ring.ring_bytes_max, ring.max_message_bytes) == (16384, 65536, 4096)
    sent = [(i, bytes([i]) * 3000) for i in range(4)]
    assert all(ring.post(*message, 0) for message in sent)
    ring.resize(1 << 30)
    assert ring.ring_bytes == 65536
    more = [(i, bytes([i]) * 3000) for i in range(4, 15)]
    assert all(ring.post(*message, 0) for message in more)
    ring.resize(16384)
    assert ring.receive(64, 0) == sent + more
    assert ring.post(1, b"x", 0)
    assert ring.receive(64, 0) == [(1, b"x")]
    ring.close()


actions = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 1500)),
    st.tuples(st.just("send"), st.integers(2000, 5000)),
    st.tuples(st.just("recv"), st.integers(1, 9)),
    st.tuples(st.just("resize"), st.integers(1024, 16384)),
)


@examples(150)
@given(st.lists(actions, min_size=1, max_size=60))
def test_a_ring_is_a_bounded_queue(script):
    folder = Folder.make(watched=False)
    ring = Ring.create(str(folder.path / "ring"), 6144, 16384)
    expected: deque[tuple[int, bytes]] = deque()
    try:
        for number, (action, argument) in enumerate(script):
            play(ring, expected, number, action, argument)
        while expected:
            drain(ring, expected, 100)
        assert ring.used_bytes == 0
    finally:
        ring.close()
        folder.close()


def play(ring, expected, number, action, argument):
    fill = bytes([number % 256])
    if action == "recv":
        drain(ring, expected, argument)
    elif action == "resize":
        ring.resize(argument)
    elif ring.post(number, fill * argument, 0):
        expected.append((number, fill * argument))


def drain(ring, expected, records_max):
    waiting = bool(expected)
    got = ring.receive(records_max, 0)
    assert bool(got) == waiting
    assert got == [expected.popleft() for _ in got]


# ---- what is refused ----


def corrupted(folder, ring, at, value):
    image = bytearray(Path(ring.path).read_bytes())
    struct.pack_into("<Q", image, at, value)
    copy = folder / "copy"
    copy.touch(0o600)
    copy.write_bytes(image)
    return str(copy)


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, 0, "not a ring"),
        (VERSION_AT, 0x4000000002, "another version"),
        (VERSION_AT, 0xFFFF00000001, "does not fit"),
        (PID_NAMESPACE_AT, 12345, "namespace"),
        (PID_NAMESPACE_AT + 8, 12345, "namespace"),
    ],
)
def test_a_damaged_or_foreign_header_is_refused(folder, ring, at, value, reason):
    with pytest.raises(OSError, match=reason):
        Ring.attach(corrupted(folder, ring, at, value))


def test_a_link_an_open_mode_and_a_short_file_are_refused(folder, ring):
    (folder / "link").symlink_to(ring.path)
    with pytest.raises(OSError, match="link"):
        Ring.attach(str(folder / "link"))
    Path(ring.path).chmod(0o640)
    with pytest.raises(OSError, match="other users"):
        Ring.attach(ring.path)
    (folder / "short").touch(0o600)
    with pytest.raises(OSError, match="too short"):
        Ring.attach(str(folder / "short"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_ring_of_another_user_is_refused(ring):
    os.chown(ring.path, 12345, -1)
    with pytest.raises(OSError, match="another user"):
        Ring.attach(ring.path)


def test_a_ring_is_created_exclusively_and_for_its_user_only(folder, ring):
    assert Path(ring.path).stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        Ring.create(ring.path, 65536)
    with pytest.raises(ValueError, match="64 MiB"):
        Ring.create(str(folder / "huge"), 1 << 30)
    assert names(folder) == ["ring"]


def test_a_damaged_record_is_an_error_not_a_crash(ring):
    assert ring.post(1, b"hello", 0)
    head = 8960
    with Path(ring.path).open("r+b") as file:
        file.seek(head + 8)
        file.write(struct.pack("<Q", 1 << 40))
    with pytest.raises(OSError, match="damaged") as caught:
        ring.receive(64, 0)
    assert caught.value.errno == errno.EBADMSG


# ---- the typed face ----


def test_reader_and_writer_carry_small_and_large(folder):
    reader = face.RingReader(str(folder / "reader"), 65536, 1 << 20)
    writer = face.RingWriter(reader.path)
    large = os.urandom(300_000)
    assert writer.send(1, b"small")
    assert writer.send(2, large)
    assert reader.wait(LONG_US)
    assert reader.receive() == [(1, b"small"), (2, large)]
    writer.close()
    reader.close()


def test_a_ring_that_producers_find_full_grows_to_a_hundred_messages(folder):
    reader = face.RingReader(str(folder / "reader"), 65536, 1 << 20)
    writer = face.RingWriter(reader.path)
    message = b"x" * 8000
    for _ in range(400):
        if not writer.send(0, message):
            assert reader.receive(1000)
    assert reader.ring.ring_bytes == pytest.approx(100 * len(message), rel=0.01)
    writer.close()
    reader.close()


def test_errors_are_named(folder):
    with pytest.raises(NoSharedMemoryError):
        face.RingReader(str(folder / "no" / "such" / "folder"))
    (folder / "taken").touch(0o600)
    with pytest.raises(ForeignSegmentError):
        face.RingReader(str(folder / "taken"))
    with pytest.raises(ForeignSegmentError, match="too short"):
        face.RingWriter(str(folder / "taken"))


@pytest.mark.parametrize(
    ("mean_bytes", "ring_bytes", "found_full", "expected_bytes"),
    [
        (1000, 1 << 16, True, 100_000),
        (1000, 1 << 16, False, 1 << 16),
        (10_000, 1 << 16, True, 1_000_000),
        (100_000, 1 << 20, True, 1 << 20),
        (100, 1 << 20, False, 1 << 16),
        (1000, 200_000, True, 200_000),
        (1000, 200_001, True, 100_000),
    ],
)
def test_the_sizer(mean_bytes, ring_bytes, found_full, expected_bytes):
    sizer = face.Sizer(1 << 16, 1 << 20)
    assert not sizer.note(10, 10 * mean_bytes, mean_bytes, ring_bytes)
    assert sizer.note(300, 300 * mean_bytes, mean_bytes, ring_bytes)
    assert sizer.size(ring_bytes, 5 if found_full else 0) == expected_bytes


def test_a_large_message_makes_the_ring_grow_at_once_and_is_remembered_for_a_while():
    sizer = face.Sizer(1 << 16, 1 << 20)
    assert sizer.note(1, 200_001, 200_001, 1 << 16)
    grown = sizer.size(1 << 16, 0)
    assert grown == 4 * 200_064  # whole units of 64 bytes
    sizes = [sizer.size(grown, 0) for _ in range(5) if sizer.note(256, 2560, 10, grown)]
    assert sizes[0] == grown, "a large one may come again"
    assert sizes[-1] == 1 << 16


def test_a_ring_fits_its_messages(folder):
    reader = face.RingReader(str(folder / "fitted"), 4 << 20, 16 << 20)
    writer = face.RingWriter(reader.path)

    def pass_on(payload, count):
        for _ in range(count):
            assert writer.send(0, payload)
            assert reader.receive() == [(0, payload)]
        return reader.ring.ring_bytes

    assert pass_on(b"x" * 10_000, 600) == face.RING_BYTES_FLOOR
    assert pass_on(b"y" * 800_000, 32) == 4 * 800_000, "else every one of them took a file of its own"
    assert writer.ring.max_message_bytes == 800_000
    assert pass_on(b"z", 4000) == face.RING_BYTES_FLOOR
