"""Which roots are sent again for being late: within the budget, by what was learned, and none is forgotten."""

from __future__ import annotations

from tailrace.acking.adaptive_timeout import TimeoutSettings
from tailrace.acking.ledger import Ledger
from tailrace.acking.replay import AdaptiveReplays, BlindReplays, FixedReplays
from tailrace.hot import root_heads

MS = 1_000_000
S = 1000 * MS


class Stream:
    """A ledger and its replays on a clock moved by hand."""

    def __init__(self, **settings):
        self.ledger = Ledger(1)
        self.replays = AdaptiveReplays(self.ledger, TimeoutSettings(**settings))
        self.now_ns = 0
        self.offset = 0
        self.again = 0

    def emit(self, count):
        heads = root_heads(1, range(self.offset, self.offset + count), self.ledger.base_inc)
        self.offset += count
        self.ledger.emit(heads, None, None, self.now_ns, None)
        self.replays.emitted(count)
        return heads

    def look(self):
        self.replays.learn(self.ledger, self.now_ns)
        late = self.replays.due(self.ledger, self.now_ns)
        for root in late:
            self.ledger.reincarnate(root, self.now_ns)
        self.again += len(late)
        return late

    def flow(self, rounds, took_ns, every_ns=20 * MS, count=20):
        """Roots that each take so long."""
        for _ in range(rounds):
            heads = self.emit(count)
            self.now_ns += took_ns
            self.look()
            self.ledger.acks(heads, self.now_ns)
            self.now_ns += max(0, every_ns - took_ns)


def test_the_timeout_is_learned_from_what_roots_take_since_they_were_sent():
    stream = Stream()
    assert stream.replays.timeout_ns == 30 * S
    stream.flow(200, 8 * MS)
    assert 7 * MS < stream.replays.timeout_ns < 10 * MS
    assert not stream.again
    stalled = stream.emit(3)
    stream.now_ns += 12 * MS
    assert len(stream.look()) == 3
    assert stream.look() == []  # not again at once
    stream.ledger.acks(stalled, stream.now_ns)
    assert not len(stream.ledger)


def test_a_step_of_service_times_replays_no_more_than_the_budget():
    stream = Stream()
    stream.flow(200, 2 * MS)
    stream.flow(500, 40 * MS, every_ns=40 * MS)
    assert 0 < stream.again <= 0.03 * stream.offset
    assert stream.again == stream.replays.budget.replayed == stream.ledger.replays
    assert stream.replays.timeout_ns > 30 * MS


def test_what_is_lost_is_sent_again_when_the_budget_is_spent_and_nothing_new_comes():
    stream = Stream(burst=1.0)
    stream.flow(200, 2 * MS)
    stream.emit(5)
    stream.now_ns += 1 * S
    assert len(stream.look()) == 1
    stream.now_ns += 20 * S
    assert stream.look() == []
    stream.now_ns += 10 * S
    assert len(stream.look()) == 4


def test_a_fixed_time_asks_for_whatever_is_overdue():
    ledger, replays = Ledger(1), FixedReplays(2 * S)
    ledger.emit(root_heads(1, range(3), ledger.base_inc), None, None, 0, None)
    replays.emitted(3)
    replays.learn(ledger, 1)
    assert replays.next_look_ns(ledger, S) == S + S // 10
    assert replays.due(ledger, 2 * S) == []
    assert len(replays.due(ledger, 2 * S + 1)) == 3


def test_the_next_look_is_when_the_oldest_open_root_will_be_late():
    stream = Stream()
    stream.flow(200, 8 * MS)
    timeout_ns, begun_ns = stream.replays.timeout_ns, stream.now_ns

    def next_look_ns():
        return stream.replays.next_look_ns(stream.ledger, stream.now_ns)

    assert next_look_ns() == begun_ns + timeout_ns  # nothing is open: what is sent next is late then at the earliest
    stream.emit(1)
    stream.now_ns += 3 * MS
    stream.emit(1)
    assert next_look_ns() == begun_ns + timeout_ns
    stream.now_ns = begun_ns + timeout_ns - MS
    assert next_look_ns() == stream.now_ns + 2 * MS  # never more often
    stream.now_ns = begun_ns + 50 * MS
    assert next_look_ns() <= stream.now_ns + 2 * MS  # late already, and it may have to wait for budget


def test_blind_replication_sends_its_share_once_more_and_no_root_three_times():
    ledger, replays = Ledger(1), BlindReplays(0.2, 30 * S)
    again = []
    for at in range(20):
        ledger.emit(root_heads(1, range(at * 100, at * 100 + 100), ledger.base_inc), None, None, at * MS, None)
        found = replays.due(ledger, at * MS + MS // 2)
        for root in found:
            ledger.reincarnate(root, at * MS + MS // 2)
        again += found
    assert len(set(again)) == len(again)
    assert 0.15 < len(again) / 2000 < 0.25


def test_nothing_is_saved_up_before_a_timeout_is_known():
    stream = Stream()
    stream.emit(900)
    assert stream.replays.budget.emitted == 0
    stream = Stream()
    stream.flow(200, 8 * MS)
    known_at = stream.replays.budget.emitted
    stream.emit(100)
    assert stream.replays.budget.emitted == known_at + 100
