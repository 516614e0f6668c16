"""The outgoing office: what is sent to whom in which message, and what waits while a peer is full or being replaced."""

from __future__ import annotations

import pytest
from tests.unit.heads import heads_of

from tailrace.sending.outbox import Outbox
from tailrace.transport import codec, wire
from tailrace.transport.wire import WireError
from tailrace.worker.exchange.outgoing import ACKS_PER_FRAME_MAX, OutgoingBuffer

LIMIT = 20_000


class Peers:
    """Takes messages in as long as it has room."""

    def __init__(self, room=1_000_000):
        self.room = room
        self.messages = []

    def send(self, slot, message):
        if self.room <= 0:
            return False
        self.room -= 1
        self.messages.append((slot, message))
        return True

    def frames(self, slot, kind=None):
        return [
            frame
            for to, message in self.messages
            if to == slot
            for frame in wire.frames(message)
            if kind is None or frame.kind == kind
        ]

    def values(self, slot):
        return [
            value
            for frame in self.frames(slot, wire.DATA)
            for value in codec.decode_batch(frame.payload).values
        ]  # fmt: skip


@pytest.fixture
def peers():
    return Peers()


@pytest.fixture
def outgoing(peers):
    return OutgoingBuffer(3, 2, peers.send, 16, LIMIT)


def box_of(values, slot=1, window=10_000, channel=7):
    box = Outbox(channel, slot, 0, window)
    fill(box, values)
    return box


def fill(box, values):
    box.values.extend(values)
    numbers = list(range(len(values)))
    box.heads.extend(heads_of(numbers, numbers, numbers))
    box.sizes.extend([1] * len(values))


def test_frames_to_one_peer_share_a_message_that_says_who_wrote_it(outgoing, peers):
    outgoing.data(box_of(["a", "b"]))
    outgoing.credit(1, 4, 99)
    outgoing.ack(1, heads_of([5], [256], [6]))
    outgoing.dispatch(acks=True)
    ((slot, message),) = peers.messages
    assert (slot, wire.sender(message)) == (1, (3, 2))
    assert [frame.kind for frame in wire.frames(message)] == [wire.DATA, wire.CREDITS, wire.ACKS]
    assert int.from_bytes(peers.frames(1, wire.CREDITS)[0].payload, "little") == 99


def test_frames_hold_at_most_batch_max_values(outgoing, peers):
    outgoing.data(box_of(list(range(50))))
    outgoing.dispatch(acks=False)
    assert [len(codec.decode_batch(frame.payload)) for frame in peers.frames(1)] == [16, 16, 16, 2]
    sent = [value for frame in peers.frames(1) for value in codec.decode_batch(frame.payload).values]
    assert sent == list(range(50))


def test_no_more_is_sent_than_the_receiver_has_room_for(outgoing, peers):
    box = box_of(list(range(50)), window=20)
    outgoing.data(box)
    assert len(box.values) == 30
    box.consumed = 5
    outgoing.data(box)
    assert len(box.values) == 25
    outgoing.dispatch(acks=False)
    assert peers.values(1) == list(range(25))


@pytest.mark.parametrize("size", [10, 400, 3000])
def test_messages_stay_within_their_bound_whatever_values_weigh(outgoing, peers, size):
    values = [str(number) * size for number in range(60)]
    outgoing.data(box_of(values))
    outgoing.dispatch(acks=False)
    assert all(len(message) <= LIMIT for _, message in peers.messages)
    assert peers.values(1) == values


def test_a_value_that_fits_no_message_is_a_named_error(outgoing):
    with pytest.raises(WireError, match="frame_bytes_max"):
        outgoing.data(box_of(["a", "b" * LIMIT]))


def test_many_acks_are_cut_into_frames(outgoing, peers):
    count = ACKS_PER_FRAME_MAX + 5
    outgoing.ack(1, heads_of(range(count), [256] * count, range(count)))
    assert outgoing.acks_waiting == count
    outgoing.dispatch(acks=True)
    assert outgoing.acks_waiting == 0
    roots = [codec.decode_heads(frame.payload)[0::3] for frame in peers.frames(1, wire.ACKS)]
    assert [len(each) for each in roots] == [ACKS_PER_FRAME_MAX, 5]
    assert [root for each in roots for root in each] == list(range(count))


def test_what_finds_no_room_waits_in_order_and_data_stays_in_its_outbox(outgoing, peers):
    peers.room = 0
    outgoing.credit(1, 4, 1)
    outgoing.dispatch(acks=False)
    assert outgoing.stuck
    assert not outgoing.accepts(1)
    assert outgoing.accepts(2)
    outgoing.credit(1, 4, 2)
    outgoing.dispatch(acks=False)
    peers.room = 100
    outgoing.dispatch(acks=False)
    assert not outgoing.stuck
    assert [int.from_bytes(frame.payload, "little") for frame in peers.frames(1)] == [1, 2]


def test_a_full_peer_does_not_hold_up_another():
    taken = []
    outgoing = OutgoingBuffer(3, 2, lambda slot, message: slot == 2 and not taken.append(slot), 16, LIMIT)
    outgoing.credit(1, 4, 1)
    outgoing.credit(2, 4, 1)
    outgoing.dispatch(acks=False)
    assert taken == [2]


def test_what_was_under_way_to_a_replaced_worker_is_forgotten_and_the_rest_waits(outgoing, peers):
    peers.room = 0
    outgoing.credit(1, 4, 1)
    outgoing.dispatch(acks=False)
    outgoing.credit(1, 4, 2)
    outgoing.ack(1, heads_of([1], [256], [1]))
    outgoing.hold(1)
    peers.room = 100
    assert not outgoing.accepts(1)
    outgoing.credit(1, 4, 3)
    outgoing.ack(1, heads_of([2], [512], [2]))
    outgoing.dispatch(acks=True)
    assert peers.messages == []
    outgoing.release(1)
    assert outgoing.accepts(1)
    outgoing.dispatch(acks=True)
    assert [int.from_bytes(frame.payload, "little") for frame in peers.frames(1, wire.CREDITS)] == [3]
    assert codec.decode_heads(peers.frames(1, wire.ACKS)[0].payload)[0] == 2
