"""Inboxes: order of arrival, bounds per channel, credits, and senders that are replaced."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.heads import heads_of

from tailrace.batch import Batch
from tailrace.receiving.inbox import Channel, Inbox


def batch_of(values):
    numbers = list(range(len(values)))
    return Batch(list(values), None, heads_of(numbers, numbers, numbers))


@given(st.integers(0, 2**32), st.integers(1, 3))
def test_tuples_come_out_in_order_and_the_counts_add_up(seed, senders):
    rng = random.Random(seed)
    channels = {number: Channel(number, number, 100) for number in range(senders)}
    inbox = Inbox(channels)
    put, taken = [], []
    for now_ns in range(40):
        if rng.random() < 0.5:
            channel = rng.choice(list(channels.values()))
            values = [(channel.id, now_ns, n) for n in range(rng.randint(1, 9))]
            put += values
            inbox.put(channel, batch_of(values), now_ns)
        elif inbox:
            arrivals, batch = inbox.take(rng.randint(1, 6))
            came = [(channel.id, since_ns) for channel, count, since_ns in arrivals for _ in range(count)]
            assert [value[:2] for value in batch.values] == came
            assert len(batch.heads) == 3 * len(batch)
            taken += batch.values
        assert inbox.tuples == len(put) - len(taken) <= inbox.tuples_most
        assert sum(each.received for each in channels.values()) == len(put)
        assert sum(each.consumed for each in channels.values()) == len(taken)
    while inbox:
        taken += inbox.take(100)[1].values
    assert taken == put


def test_it_has_ended_when_all_senders_have_and_nothing_waits():
    first, second = Channel(0, 0, 10), Channel(1, 1, 10)
    inbox = Inbox({0: first, 1: second})
    inbox.put(first, batch_of("ab"), 0)
    first.ended = True
    assert not inbox.ended
    second.ended = True
    assert not inbox.ended
    inbox.take(9)
    assert inbox.ended


def test_credit_is_due_after_a_quarter_of_the_window():
    channel = Channel(0, 0, 40)
    inbox = Inbox({0: channel})
    inbox.put(channel, batch_of(range(20)), 0)
    inbox.take(9)
    assert not channel.credit_due
    inbox.take(1)
    assert channel.credit_due
    channel.reported = channel.consumed
    assert not channel.credit_due


@given(st.lists(st.tuples(st.sampled_from(["put", "take", "reset"]), st.integers(1, 6)), max_size=40))
def test_a_new_sender_gets_no_room_for_what_its_predecessor_left(steps):
    """The sender's side of the account, kept beside: it never has more under way than its window."""
    window = 12
    channel = Channel(0, 0, window)
    inbox = Inbox({0: channel})
    sent, stale, waiting = 0, 0, 0
    for what, count in steps:
        if what == "put":
            count = min(count, window - (sent - channel.consumed))  # noqa: PLW2901 - as a sender would
            if count > 0:
                inbox.put(channel, batch_of(range(count)), 0)
                sent += count
                waiting += count
        elif what == "take" and inbox:
            taken = len(inbox.take(count)[1])
            waiting -= taken
            stale -= min(stale, taken)
        elif what == "reset":
            channel.reset()
            sent, stale = 0, waiting
        assert inbox.tuples == waiting
        assert waiting - stale <= window
        assert channel.consumed <= sent


def test_what_goes_elsewhere_gives_its_room_back_and_what_came_since_stays():
    one, other = Channel(1, 1, 100), Channel(2, 2, 100)
    inbox = Inbox({1: one, 2: other})
    inbox.put(one, batch_of("abcd"), 0)
    inbox.put(other, batch_of("ef"), 1)
    inbox.put(one, batch_of("gh"), 2)
    assert inbox.keep([(one, batch_of("bc"), 0)], 2) == [one, other]
    assert [list(batch.values) for _, batch, _ in inbox.waiting] == [["b", "c"], ["g", "h"]]
    assert (inbox.tuples, one.consumed, other.consumed) == (4, 2, 2)


def test_what_comes_from_elsewhere_waits_in_front_and_takes_no_room():
    channel = Channel(1, 1, 100)
    inbox = Inbox({1: channel})
    inbox.put(channel, batch_of("xy"), 5)
    inbox.put_first([(channel, batch_of("ab"), 1), (channel, batch_of("c"), 2)])
    assert inbox.tuples == 5
    taken = []
    while inbox.waiting:
        taken += inbox.take(1)[1].values
    assert taken == list("abcxy")
    assert (channel.received, channel.consumed, channel.stale) == (2, 2, 0)
