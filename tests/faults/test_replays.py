"""A root that is sent again and again: never taken for a fresh one, ever more rarely, and not for merely waiting."""

from __future__ import annotations

import time

from tests.queries import PATIENT, completed, ended, ending, reports_later, until

import tailrace as tr
from tailrace import testing
from tailrace.acking.dedup import Deduplicator
from tailrace.acking.ledger import Ledger
from tailrace.batch import Batch, numbers, root_id
from tailrace.coordinator.query import Query
from tailrace.hot import root_heads

MS = 1_000_000
#: Replays at 50 ms, then 100, 200, ...: what fits into the time that the record is stuck, and room for a slow machine.
CALLS_MAX = 12
STUCK_REPORTS = 30


def test_a_replay_is_known_again_however_often_its_root_was_sent():
    ledger, guard = Ledger(1), Deduplicator()
    heads = root_heads(1, [0], ledger.base_inc)
    ledger.emit(heads, None, None, 0, None)
    assert guard.admit(Batch(["value"], None, heads)) is None
    for replay in range(1, 1025):
        inc, _, _ = ledger.reincarnate(root_id(1, 0), 0)
        if replay % 256 == 0:  # those between are under way elsewhere
            again = numbers((heads[0], inc, heads[2]))
            assert guard.admit(Batch(["value"], None, again)) == [False]


def test_a_stuck_record_runs_its_function_a_few_times(tmp_path):
    calls, release = tmp_path / "calls", tmp_path / "release"

    def sticks(value):
        if value == 7:
            with calls.open("a") as log:
                log.write("x")
            while not release.exists():
                time.sleep(0.01)
        return value

    flow, out = tr.Topology("stuck"), tr.sinks.collect()
    flow.source(tr.sources.rate(200, count=100)).shuffle().map(sticks, tasks=4).shuffle().sink(out, tasks=1)
    settings = tr.Settings(progress_s=0.1, **PATIENT)
    with ending(Query(flow, testing.ProcessHost(2), tr.Policy(replay="fixed:0.05s"), settings).start()) as query:
        until(calls.exists, "the record arrives", query)
        reports_later(query, STUCK_REPORTS)
        release.touch()
        ended(query)
    assert sorted(out.values) == list(range(100))
    assert 1 < len(calls.read_text()) <= CALLS_MAX


def test_what_waits_in_a_long_queue_is_not_sent_again():
    """A queue of two seconds and a timeout of 200 ms: every root is overdue, and none is lost."""
    flow, out = tr.Topology("queue"), tr.sinks.collect()
    numbers_ = flow.source(tr.sources.rate(float("inf"), count=200)).shuffle()
    numbers_.map(lambda value: time.sleep(0.01) or value, tasks=1, blocking=True).sink(out)
    settings = tr.Settings(progress_s=0.1, **PATIENT)
    with ending(Query(flow, testing.ProcessHost(2), tr.Policy(replay="fixed:0.2s"), settings).start()) as query:
        ended(query)
    assert sorted(out.values) == list(range(200))
    assert completed(query) == 200
    assert query.lastProgress["replays"] < 20


def test_the_wait_doubles_with_each_replay_and_ends_at_ten_minutes():
    ledger = Ledger(1)
    ledger.emit(root_heads(1, [0], ledger.base_inc), None, None, 0, None)
    waits_s, now_ns, sent_ns = [], 0, 0
    while len(waits_s) < 8:
        now_ns += 1000 * MS
        if ledger.lost(now_ns, 30_000 * MS, 10):
            waits_s.append((now_ns - sent_ns) // (1000 * MS))
            ledger.reincarnate(root_id(1, 0), now_ns)
            sent_ns = now_ns
    assert waits_s == [31, 61, 121, 241, 481, 601, 601, 601]
