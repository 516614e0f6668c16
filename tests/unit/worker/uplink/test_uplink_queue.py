"""The outgoing queue of a task: what is filed, what may go, and what its receivers hold up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tailrace.sending.outbox import Outbox
from tailrace.worker.exchange.outgoing import OutgoingBuffer
from tailrace.worker.uplink.queue import FIRST_GUESS_BYTES, Queue


@pytest.fixture
def outgoing():
    return OutgoingBuffer(0, 1, lambda _slot, _message: True, batch_max=8, message_bytes_max=1 << 20)


@pytest.fixture
def queue():
    return Queue(3, SimpleNamespace(stage=SimpleNamespace(id=1, tasks=4), index=2))


def send(queue, outgoing, box, tuples):
    size = outgoing.some(box, tuples)
    queue.took(box, tuples, size)
    return size


def test_the_oldest_of_all_outboxes_is_known_as_they_fill_and_empty(queue, outgoing):
    one, other = Outbox(0, 1, 0, 100), Outbox(1, 1, 1, 100)
    one.values += ["a", "b"]
    queue.file(one, 10)
    other.values += ["c"]
    queue.file(other, 20)
    one.values += ["d"]
    queue.file(one, 30)
    queue.file(one, 40)  # nothing new
    assert (queue.tuples, queue.most) == (4, 4)
    assert {box: head[:2] for box, head in queue.heads(outgoing).items()} == {one: (10, 2), other: (20, 1)}
    size = send(queue, outgoing, one, 2)
    assert {box: head[:2] for box, head in queue.heads(outgoing).items()} == {one: (30, 1), other: (20, 1)}
    send(queue, outgoing, one, 1)
    assert queue.head(one, outgoing) is None
    assert (queue.tuples, queue.most, queue.boxes) == (1, 4, [other])
    assert queue.show(queue.heads(outgoing)) == (1, queue.shown_bytes)
    assert size / 2 < queue.shown_bytes < FIRST_GUESS_BYTES


def test_what_a_receiver_has_no_room_for_does_not_count(queue, outgoing):
    full, free = Outbox(0, 1, 0, 1), Outbox(1, 2, 0, 100)
    for box in (full, free):
        box.values += ["a", "b", "c"]
        queue.file(box, 10)
    send(queue, outgoing, full, 1)
    assert list(queue.heads(outgoing)) == [free]
    assert queue.show(queue.heads(outgoing))[0] == queue.shown_tuples == 3
    outgoing.hold(2)
    assert queue.show(queue.heads(outgoing))[0] == 0
    assert queue.tuples == 5
    full.credited(1)
    outgoing.release(2)
    assert queue.show(queue.heads(outgoing))[0] == 5


def test_what_went_another_way_is_forgotten(queue, outgoing):
    box = Outbox(0, 1, 0, 100)
    box.values += ["a", "b", "c"]
    queue.file(box, 10)
    box.values = ["d"]
    queue.file(box, 20)
    assert queue.tuples == 1
    assert queue.heads(outgoing)[box][:2] == (20, 1)
