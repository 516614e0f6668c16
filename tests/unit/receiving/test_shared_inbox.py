"""The runtime's shared inbox: claims of batches, ends that pass once, changing over to own inboxes and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailrace as tr
from tailrace import simulate
from tailrace.batch import Batch, numbers
from tailrace.config import Policy
from tailrace.receiving.inbox import Channel, Inbox
from tailrace.receiving.shared import Shared
from tailrace.receiving.shared_inbox import SharedInbox
from tailrace.simulate.model import Policies
from tailrace.simulate.scenarios.checks import queue
from tailrace.testing import InProcess, TestSink


def batch(*values, tracked=False):
    return Batch(list(values), None, numbers(range(3 * len(values))) if tracked else numbers())


def inbox_of(channels=2):
    ways = [Channel(number, slot=number, window=64) for number in range(channels)]
    return SharedInbox({way.id: way for way in ways}), ways


def test_a_large_batch_is_cut_and_small_ones_are_taken_together():
    inbox, (one, two) = inbox_of()
    inbox.put(one, batch(1, 2, 3, 4, 5, tracked=True), 10)
    inbox.put(two, batch(6, 7, tracked=True), 20)
    arrivals, first = inbox.take(3)
    assert (first.values, arrivals) == ([1, 2, 3], [(one, 3, 10)])
    arrivals, second = inbox.take(4)
    assert (second.values, arrivals) == ([4, 5, 6, 7], [(one, 2, 10), (two, 2, 20)])
    assert (one.consumed, two.consumed, inbox.tuples, inbox.tuples_most) == (5, 2, 0, 7)
    assert not inbox.waiting


def test_what_goes_back_is_first_again_and_counts_as_consumed_once():
    inbox, (one, two) = inbox_of()
    inbox.put(one, batch(1, tracked=True), 10)
    inbox.put(two, batch(2, tracked=True), 20)
    inbox.put(two, batch(3), 30)
    arrivals, taken = inbox.take(2)
    assert taken.values == [1, 2]
    inbox.release(arrivals)
    assert (inbox.tuples, one.consumed, two.consumed) == (3, 0, 0)
    assert [inbox.take(1)[1].values for _ in range(3)] == [[1], [2], [3]]
    assert (one.consumed, two.consumed) == (1, 2)


def test_an_end_passes_when_all_before_it_is_done_and_holds_back_what_is_behind_it():
    inbox, (one, two) = inbox_of()
    inbox.put(one, batch(1), 10)
    inbox.end(one)
    inbox.put(two, batch(2), 20)
    claim, _ = inbox.take(10)
    assert not inbox.waiting
    assert not one.ended
    assert inbox.done(claim)
    assert one.ended
    assert inbox.waiting
    last, _ = inbox.take(10)
    inbox.end(two)
    assert not inbox.ended
    assert inbox.done(last)
    assert inbox.ended


def test_the_end_of_a_sender_that_was_replaced_says_nothing():
    inbox, (one, two) = inbox_of()
    inbox.put(two, batch(1), 10)
    claim, _ = inbox.take(1)
    inbox.end(one)
    one.reset()
    inbox.done(claim)
    assert not one.ended
    inbox.put(one, batch(2), 20)
    inbox.end(one)
    inbox.end(two)
    claim, _ = inbox.take(1)
    inbox.done(claim)
    assert inbox.ended


@given(st.lists(st.sampled_from(["put0", "put1", "take1", "take3", "done", "release"]), max_size=60))
def test_every_tuple_is_done_or_claimed_or_waits(steps):
    inbox, ways = inbox_of()
    sent, claims, done = 0, [], []
    for step in steps:
        if step.startswith("put"):
            inbox.put(ways[int(step[-1])], batch(sent, sent + 1, tracked=True), sent)
            sent += 2
        elif step.startswith("take") and inbox.waiting:
            claims.append(inbox.take(int(step[-1])))
        elif step == "done" and claims:
            arrivals, taken = claims.pop(0)
            inbox.done(arrivals)
            done += taken.values
        elif step == "release" and claims:
            inbox.release(claims.pop()[0])
    held = [value for _, taken in claims for value in taken.values]
    left = [value for _, waiting, _ in inbox.leave() for value in waiting.values]
    assert sorted(done + held + left) == list(range(sent))
    assert sum(way.received for way in ways) == sent
    assert sum(way.consumed for way in ways) == len(done + held)


def test_own_inboxes_hand_over_in_order_of_arrival_and_get_theirs_back():
    inbox, (one, two) = inbox_of()
    own = {one: Inbox({0: one}), two: Inbox({1: two})}
    own[one].put(one, batch(1), 10)
    own[one].put(one, batch(3), 30)
    own[two].put(two, batch(2), 20)
    inbox.adopt([item for each in own.values() for item in each.leave()])
    assert own[one].tuples == 0
    inbox.end(two)
    assert inbox.take(1)[1].values == [1]
    for channel, waiting, since_ns in inbox.leave():
        own[channel].adopt(channel, waiting, since_ns)
    assert [own[one].take(9)[1].values, own[two].take(9)[1].values] == [[3], [2]]
    assert two.ended
    assert (one.received, two.received) == (2, 1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=20), st.integers(1, 4))
def test_own_inboxes_and_a_shared_one_hand_out_everything_once_and_own_ones_where_it_was_sent(sent, at_a_time):
    shared, ways = inbox_of(3)
    own = [Inbox({way.id: way}) for way in ways]
    for number, (task, count) in enumerate(sent):
        for inbox in (own[task], shared):
            inbox.put(ways[task], batch(*[(task, number)] * count, tracked=True), number)
    everything = [(task, number) for number, (task, count) in enumerate(sent) for _ in range(count)]
    taken = [[value for _ in range(99) if inbox.waiting for value in inbox.take(at_a_time)[1].values] for inbox in own]
    assert taken == [[value for value in everything if value[0] == task] for task in range(3)]
    assert [value for _ in range(99) if shared.waiting for value in shared.take(at_a_time)[1].values] == everything


def test_the_end_of_an_old_sender_does_not_stand_for_the_new_ones():
    inbox, (one, two) = inbox_of()
    inbox.put(two, batch(1), 10)
    claim, _ = inbox.take(1)
    inbox.end(one)
    one.reset()
    inbox.put(one, batch(2), 20)
    inbox.end(one)
    inbox.done(claim)
    assert not one.ended
    inbox.done(inbox.take(1)[0])
    assert one.ended


def test_simulator_and_runtime_run_the_same_discipline(monkeypatch):
    """Whoever had a copy of its own would not notice that the discipline is broken."""

    def broken(queue, consumer):
        raise ArithmeticError("the one discipline")

    flow = tr.Topology("shared")
    flow.source(tr.sources.items(range(9))).shuffle().map(abs, tasks=2).shuffle().sink(TestSink(), tasks=1)
    monkeypatch.setattr(Shared, "claim", broken)
    with pytest.raises(ArithmeticError), InProcess(flow, policy=Policy(inbox="shared")) as query:
        query.finish()
    with pytest.raises(ArithmeticError):
        simulate.engine.run(queue(2, 0.5), Policies(inbox="shared"), seconds=0.1)
