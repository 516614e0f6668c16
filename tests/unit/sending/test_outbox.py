"""Outboxes: what is taken out, what is under way, what a receiver has room for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.heads import heads_of

from tailrace.sending.outbox import Outbox


def fill(box, sizes, *, tracked=True, start=0):
    box.values.extend(range(start, start + sum(sizes)))
    if tracked:
        box.sizes.extend(sizes)
        box.heads.extend(heads_of(*[range(len(sizes))] * 3))


@given(
    st.lists(st.lists(st.integers(1, 5), max_size=8), min_size=1, max_size=5),
    st.lists(st.integers(1, 12), min_size=1),
    st.booleans(),
)
def test_everything_filed_is_taken_out_once_in_order(fills, takes, tracked):
    box = Outbox(1, 0, 0, 1000)
    filed = taken = 0
    for number, sizes in enumerate(fills):
        fill(box, sizes, tracked=tracked, start=filed)
        filed += sum(sizes)
        wanted = takes[number % len(takes)]
        if box.values:
            batch = box.take(wanted)
            assert batch.values == list(range(taken, taken + len(batch)))
            assert len(batch) <= wanted or batch.bundles == 1
            taken += len(batch)
    while box.values:
        batch = box.take(7)
        assert batch.values == list(range(taken, taken + len(batch)))
        assert sum(batch.sizes or []) in {0, len(batch)}
        taken += len(batch)
    assert taken == filed == box.sent
    assert box.room == 1000 - filed


def test_what_was_consumed_makes_room():
    box = Outbox(1, 0, 0, 10)
    fill(box, [1] * 10)
    box.take(10)
    assert box.room == 0
    box.consumed = 4
    assert box.room == 4


def test_a_new_receiver_gets_what_waits_and_has_all_its_room():
    box = Outbox(1, 0, 0, 10)
    fill(box, [1] * 6)
    box.take(4)
    box.ended = box.end_sent = True
    box.reset()
    assert (box.room, box.serial, box.end_sent, box.ended) == (10, 0, False, True)
    assert box.take(9).values == [4, 5]


def test_a_bundle_larger_than_asked_for_is_taken_whole():
    box = Outbox(1, 0, 0, 10)
    fill(box, [25, 1])
    assert len(box.take(3)) == 25
    assert box.room == -15
