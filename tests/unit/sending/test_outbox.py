"""Outboxes: what is taken out, what is under way, what a receiver has room for."""

from __future__ import annotations

import random

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
    assert (box.room, box.end_sent, box.ended) == (10, False, True)
    assert box.take(9).values == [4, 5]


def test_a_bundle_larger_than_asked_for_is_taken_whole():
    box = Outbox(1, 0, 0, 10)
    fill(box, [25, 1])
    assert len(box.take(3)) == 25
    assert box.room == -15


# -- bytes ---------------------------------------------------------------------------------------------------------

LARGE = "x" * 10_000


def test_what_waits_is_weighed_as_it_comes_and_goes():
    box = Outbox(1, 0, 0, 1000)
    assert box.bytes == 0
    box.values += [LARGE] * 10
    once = box.bytes
    assert 100_000 < once < 110_000
    box.values += [LARGE] * 10
    assert box.bytes == 2 * once
    box.take(5)
    assert box.bytes == once * 3 // 2
    box.take(100)
    assert box.bytes == 0


def test_large_values_fill_a_window_long_before_its_tuples_do():
    box = Outbox(1, 0, 0, 1000, 50_000)
    box.values += [LARGE] * 40
    batches = []
    while box.room > 0:
        batches.append(len(box.take(box.room)))
    # No more than the window's bytes, and one value that did not quite fit.
    assert batches == [4, 1]
    assert box.heavy_bytes >= 50_000
    box.credited(3)  # a batch counts as a whole
    assert box.room == 0
    box.credited(4)
    assert box.room > 0
    box.credited(5)
    assert box.heavy_bytes == 0


def test_small_values_are_bounded_by_their_number_alone():
    box = Outbox(1, 0, 0, 1000, 1_000_000)
    box.values += ["word"] * 2000
    assert len(box.take(2000)) == 2000  # the caller asks for no more than there is room for
    assert box.heavy_bytes == 0
    assert box.room == -1000


def test_a_single_value_above_the_bound_is_sent_when_nothing_is_under_way():
    box = Outbox(1, 0, 0, 1000, 5000)
    box.values += [LARGE, LARGE]
    assert len(box.take(box.room)) == 1
    assert box.room == 0
    box.credited(1)
    assert len(box.take(box.room)) == 1


def test_a_new_receiver_has_all_its_bytes():
    box = Outbox(1, 0, 0, 1000, 5000)
    box.values += [LARGE, LARGE]
    box.take(1)
    box.prompt = True
    box.reset()
    assert (box.room, box.heavy_bytes, box.prompt) == (1000, 0, False)


def test_a_value_that_grows_while_it_waits_does_not_confuse_the_sum():
    box = Outbox(1, 0, 0, 1000)
    growing = ["x"]
    box.values += [growing, "y"]
    before = box.bytes
    growing.append(LARGE)
    box.take(1)
    assert 0 <= box.bytes <= before
    box.take(1)
    assert box.bytes == 0


@given(
    st.lists(st.tuples(st.integers(1, 20), st.sampled_from([10, 400, 3000, 60_000])), min_size=1, max_size=30),
    st.integers(0, 2**32),
)
def test_whatever_the_sizes_a_receiver_that_credits_promptly_gets_everything(fills, seed):
    """The bound holds, light tuples and one batch aside, and no order of sending and crediting stands still."""
    rng = random.Random(seed)
    window, window_bytes = 40, 40_000
    box = Outbox(1, 0, 0, window, window_bytes)
    under_way = []
    filed = taken = consumed = 0
    for count, size in fills:
        box.values += ["x" * size for _ in range(count)]
        filed += count
        for _ in range(rng.randint(0, 4)):
            if box.values and box.room > 0:
                batch = box.take(min(box.room, 16))
                under_way.append(batch.values)
                taken += len(batch)
                held = sum(len(value) for values in under_way for value in values)
                assert held <= 2 * window_bytes + max(map(len, batch.values)) * len(batch)
            elif under_way:
                consumed += len(under_way.pop(0))
                box.credited(consumed)
    while box.values:
        while box.room > 0 and box.values:
            under_way.append(box.take(min(box.room, 16)).values)
            taken += len(under_way[-1])
        assert under_way  # it waits for a credit that will come
        consumed += len(under_way.pop(0))
        box.credited(consumed)
    assert taken == filed
