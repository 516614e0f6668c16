"""The calls that do two things in one: waiting and taking, sending at any size; and bytes lent without a copy."""

from __future__ import annotations

import gc
import os
import threading
import time

import pytest

from tailrace.transport import ring as face
from tailrace.transport.segments import Folder

if not face.AVAILABLE:
    pytest.skip(face.WHY_NOT, allow_module_level=True)

LONG_US = 20_000_000
LARGE = 8192


def opened(ring_bytes):
    folder = Folder.make(watched=False)
    reader = face.RingReader(str(folder.path / "ring"), ring_bytes, ring_bytes)
    writer = face.RingWriter(reader.path)
    yield reader, writer
    writer.close()
    reader.close()
    folder.close()


@pytest.fixture
def ends():
    yield from opened(65536)


@pytest.fixture
def roomy():
    yield from opened(1 << 20)


def test_receive_waits_for_the_first_message(ends):
    reader, writer = ends
    sender = threading.Timer(0.05, writer.send, (7, b"late"))
    sender.start()
    assert reader.receive(8, LONG_US) == [(7, b"late")]
    sender.join()


def test_receive_gives_nothing_when_time_is_up_or_it_is_woken(ends):
    reader, _ = ends
    assert reader.receive(8, 1000) == []
    reader.wakeup()
    assert reader.receive(8, LONG_US) == []


def to_be_woken(reader):
    """Whether the receiver went to sleep and nobody has called it since: the word ``sleeping`` of native/ring.h."""
    with open(reader.path, "rb") as file:  # noqa: PTH123 - at an offset
        file.seek(388)
        return file.read(4) == b"\1\0\0\0"


@pytest.mark.parametrize(("patient", "woken"), [(True, False), (False, True)])
def test_only_a_patient_receiver_is_not_woken_by_what_can_wait(ends, patient, woken):
    reader, writer = ends
    assert reader.receive(8, 1000, patient=patient) == []
    assert to_be_woken(reader)
    writer.send(1, b"ack", can_wait=True)
    assert to_be_woken(reader) is not woken
    writer.send(2, b"data")
    assert not to_be_woken(reader)
    assert reader.receive(8) == [(1, b"ack"), (2, b"data")]


def test_an_empty_ring_uses_its_front_again_and_has_all_its_room(roomy):
    reader, writer = roomy
    payload = b"\xa5" * 60_000
    for _ in range(99):  # three of them fill the front: the next one returns to its begin
        assert writer.send(0, payload)
        assert reader.receive() == [(0, payload)]
    with open(reader.path, "rb") as file:  # noqa: PTH123 - read as it lies there
        lies = file.read()
    assert lies.rindex(payload[:64]) - lies.index(payload[:64]) < 4 * len(payload)  # of a ring of 1 MiB
    assert all(writer.send(0, payload) for _ in range(16))
    assert reader.receive() == [(0, payload)] * 16


def test_wakeups_are_counted(ends):
    reader, _ = ends
    before = reader.ring.wakeups
    reader.wakeup()
    assert reader.ring.wakeups == before + 1


def test_one_call_sends_small_and_large(ends):
    reader, writer = ends
    large = os.urandom(100_000)  # more than a quarter of the ring: by a side file
    assert writer.send(1, b"small")
    assert writer.send(2, large, LONG_US)
    assert reader.receive() + reader.receive() == [(1, b"small"), (2, large)]


def test_what_is_large_is_lent_and_what_is_small_is_copied(ends):
    reader, writer = ends
    payload = os.urandom(LARGE)
    writer.send(1, payload)
    writer.send(2, b"small")
    (_, lent), (_, copied) = reader.borrow()
    assert isinstance(lent, memoryview)
    assert lent.readonly
    assert (lent, copied) == (payload, b"small")


@pytest.mark.parametrize("end", ["borrow", "receive", "wait"])
def test_what_was_lent_takes_room_until_the_next_call(ends, end):
    reader, writer = ends
    writer.send(1, os.urandom(LARGE))
    reader.borrow()
    assert reader.ring.used_bytes == LARGE
    {"borrow": reader.borrow, "receive": reader.receive, "wait": lambda: reader.wait(1)}[end]()
    assert reader.ring.used_bytes == 0


def test_a_ring_full_of_lent_records_goes_on(ends):
    reader, writer = ends
    sent = [os.urandom(LARGE) for _ in range(40)]
    seen: list[bytes] = []

    def send_all() -> None:
        for payload in sent:
            writer.send(0, payload, LONG_US)

    sender = threading.Thread(target=send_all)
    sender.start()
    while len(seen) < len(sent):
        seen += [bytes(payload) for _, payload in reader.borrow(64, LONG_US)]
    sender.join()
    assert seen == sent


def test_more_records_than_can_be_lent_are_copied(roomy):
    reader, writer = roomy
    sent = [os.urandom(4096) for _ in range(100)]
    for payload in sent:
        assert writer.send(0, payload)
    got = [payload for _, payload in reader.borrow(200)]
    assert [bytes(payload) for payload in got] == sent
    assert sum(isinstance(payload, memoryview) for payload in got) == 64


def test_what_was_lent_can_be_freed_before_the_next_call(ends):
    reader, writer = ends
    writer.send(1, os.urandom(LARGE))
    lent = reader.borrow()
    assert reader.ring.pending_records == 1
    reader.ring.end_borrowing()
    assert reader.ring.pending_records == 0
    del lent


def test_lent_bytes_outlive_the_close_of_their_ring(ends):
    reader, writer = ends
    payload = os.urandom(LARGE)
    writer.send(1, payload)
    ((_, lent),) = reader.borrow()
    reader.close()
    gc.collect()
    assert lent == payload  # the mapping stays until the last view goes
    lent.release()


@pytest.mark.parametrize("wrong", [(), (1,), (1, 2, False, 4), ("a", 0), (1, "b")])
def test_wrong_arguments_are_refused(ends, wrong):
    reader, _ = ends
    with pytest.raises(TypeError):
        reader.ring.receive(*wrong)
    with pytest.raises(TypeError):
        reader.ring.borrow(*wrong)


def test_a_wrong_post_is_refused(ends):
    _, writer = ends
    with pytest.raises(TypeError):
        writer.ring.post(0, b"x")
    with pytest.raises(TypeError):
        writer.ring.post(0, "text", 0)
    with pytest.raises(ValueError, match="32 bits"):
        writer.ring.post(1 << 32, b"x", 0)
    with pytest.raises(TypeError):
        writer.ring.post(0, b"x", 0, False, True, None)


@pytest.mark.parametrize("manner", [{}, {"aside": False}, {"can_wait": True}, {"can_wait": True, "aside": False}])
def test_a_sleeper_gets_every_message_in_order_whether_its_waker_steps_aside_or_not(ends, manner):
    reader, writer = ends
    sent, found = 200, []

    def read():
        while len(found) < sent:
            found.extend(payload for _, payload in reader.receive(1, 5_000_000))

    listener = threading.Thread(target=read)
    listener.start()
    for number in range(sent):
        assert writer.send(0, number.to_bytes(2, "little"), 1_000_000, **manner)
        if number % 20 == 0:
            time.sleep(0.001)  # so that the reader sleeps again
    listener.join(30)
    assert found == [number.to_bytes(2, "little") for number in range(sent)]
