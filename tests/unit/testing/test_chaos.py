"""The knobs of experiments: felt by the worker they are turned for, at once and by no other."""

from __future__ import annotations

import itertools
import os
import pickle
import threading
from collections import Counter
from pathlib import Path

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query
from tailrace.testing import FakeClock, InProcess, chaos
from tailrace.testing.virtual_time import VirtualLoop
from tailrace.worker.main import SLOT_VARIABLE

NS = 1_000_000_000


def waited_s(knobs, slot, seconds, monkeypatch):
    """How long a wait takes on a fake clock."""
    monkeypatch.setenv(SLOT_VARIABLE, str(slot))
    clock = FakeClock(NS)
    loop = VirtualLoop(clock)
    done = loop.create_task(knobs.wait_async(seconds))
    while not done.done():
        loop.turn()
        if not done.done() and (due_ns := loop.next_timer_ns()) is not None:
            clock.advance(max(0, due_ns - clock.now_ns()))
    loop.close()
    return (clock.now_ns() - NS) / NS


def test_a_slow_worker_waits_longer_until_it_recovers_and_copies_feel_it(monkeypatch):
    with chaos.Knobs() as knobs:
        copy = pickle.loads(pickle.dumps(knobs))
        knobs.slow(worker=2, times=4.0)
        assert abs(waited_s(copy, 2, 0.5, monkeypatch) - 2.0) < 1e-6
        assert abs(waited_s(copy, 1, 0.5, monkeypatch) - 0.5) < 1e-6
        knobs.slow(worker=2, times=1.0)
        assert abs(waited_s(copy, 2, 0.5, monkeypatch) - 0.5) < 1e-6
    assert not Path(knobs.path).exists()


def test_a_pause_holds_up_what_would_end_in_it(monkeypatch):
    with chaos.Knobs(FakeClock(NS)) as knobs:
        knobs.slow(0, 2.0)
        knobs.pause(0, 3.0)
        assert abs(waited_s(knobs, 0, 1.0, monkeypatch) - 3.0) < 1e-6
        assert abs(waited_s(knobs, 0, 2.0, monkeypatch) - 4.0) < 1e-6
        assert abs(waited_s(knobs, 1, 1.0, monkeypatch) - 1.0) < 1e-6


def test_random_pauses_end_with_the_knobs():
    with chaos.Knobs() as knobs:
        paused = threading.Event()
        knobs.pause = lambda worker, seconds: paused.set() if worker in {3, 4} and 0.1 <= seconds <= 0.2 else None
        knobs.pause_at_random([3, 4], every_s=0.01, lasting_s=(0.1, 0.2), seed=1)
        assert paused.wait(30)
    assert not [thread for thread in threading.enumerate() if thread.name == "tailrace-chaos"]


def test_every_turn_has_a_pause_and_all_workers_have_their_share():
    pauses = list(itertools.islice(chaos.random_pauses(range(5), 5.0, (0.02, 0.1), seed=0), 500))
    assert [int(at_s) for at_s, _, _ in pauses] == list(range(500))
    assert all(70 <= count <= 130 for count in Counter(worker for _, worker, _ in pauses).values())
    assert all(0.02 <= seconds <= 0.1 for _, _, seconds in pauses)
    assert pauses == list(itertools.islice(chaos.random_pauses(range(5), 5.0, (0.02, 0.1), seed=0), 500))


def test_pauses_may_begin_anew_after_a_calm():
    with chaos.Knobs() as knobs:
        for _ in range(2):
            paused = threading.Event()
            knobs.pause = lambda *_, paused=paused: paused.set()
            knobs.pause_at_random([0], every_s=0.01, lasting_s=(0.1, 0.2))
            assert paused.wait(30)
            knobs.calm()
            assert not [thread for thread in threading.enumerate() if thread.name == "tailrace-chaos"]


def test_workers_know_their_slots_in_process():
    flow = tr.Topology("slots")
    flow.source(tr.sources.items(range(8), partitions=2), tasks=2).shuffle().map(
        lambda _: int(os.environ[SLOT_VARIABLE]), tasks=2
    ).sink(testing.TestSink(), name="out")
    with InProcess(flow, workers=4) as query:
        result = query.finish()
        assert set(result.values()) == set(query.brain.placement[1])


def test_delayed_links_carry_everything():
    flow = tr.Topology("delayed")
    flow.source(tr.sources.items(range(50))).shuffle().map(lambda v: v, tasks=2).sink(tr.sinks.collect(), name="out")
    query = Query(flow, testing.ProcessHost(2), tr.Policy(chaining="off"), tr.Settings(transport="tcp"))
    with chaos.delayed_links(query._brain, [1], ms=40) as proxies:
        query.start()
        query.awaitTermination(60)
        assert len(proxies) == 1
        delay_ms = query.lastProgress["latency"]["p50_ms"]
    assert query.exception() is None
    assert query.lastProgress["completed"] == 50
    assert delay_ms >= 40
