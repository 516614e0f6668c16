"""Whole workers in threads of this process: real sockets and loops, blocking and awaited operators, a lost lease."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from typing import ClassVar

import pytest

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query, QueryListener
from tailrace.program.boot import WorkerLocation
from tailrace.program.errors import OperatorError
from tailrace.topology.operators import Operator
from tailrace.worker.main import run_worker

HANG_S = 60.0


@pytest.fixture(autouse=True)
def _switch_interval():
    """A worker has its process to itself, and says how often Python's threads take turns."""
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


class ThreadHost:
    """Workers as threads; enough to test loops with, no good for anything else."""

    driver_host = bind_host = "127.0.0.1"
    session = ""

    def __init__(self, workers):
        self.workers = workers
        self.errors = []
        self._threads = []

    def launch(self, boot):
        for slot in range(self.workers):
            where = WorkerLocation(slot, 1, f"thread-{slot}", "127.0.0.1")
            self._threads.append(threading.Thread(target=self._run, args=(boot, where), daemon=True))
            self._threads[-1].start()

    def _run(self, boot, where):
        try:
            run_worker(boot, where)
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.errors.append(error)

    def failure(self):
        return None

    def stop(self, timeout_s):
        for thread in self._threads:
            thread.join(timeout_s)

    def describe(self):
        return f"{self.workers} threads"


def started(flow, *, workers=2, **settings):
    host = ThreadHost(workers)
    query = Query(flow, host, Policy(), Settings(**settings))
    query.start()
    return query, host


@pytest.mark.parametrize("transport", ["auto", "uds", "tcp"])
def test_tuples_go_through_workers_over_every_transport(transport):
    flow, sink = tr.Topology("words"), tr.sinks.collect()
    words = flow.source(tr.sources.items(["a b", "b c", "c a"] * 50, partitions=2), tasks=2)
    counts = words.shuffle().flat_map(str.split, tasks=2).key_by(lambda word: word).count(tasks=3)
    counts.sink(sink, tasks=2)
    query, host = started(flow, transport=transport)
    assert query.awaitTermination(HANG_S)
    assert Counter(sink.values) == Counter((word, n) for word in "abc" for n in range(1, 101))
    assert query.lastProgress["completed"] == 150
    assert host.errors == []


def test_a_blocking_task_does_not_stall_its_neighbours():
    """The slow task waits for the fast one, in one worker: in one thread that could never end."""
    let_go = threading.Event()
    Gate.events["stall"] = let_go
    flow, slow, fast = tr.Topology("stall"), tr.sinks.collect(), tr.sinks.collect()
    flow.source(tr.sources.items([1]), name="one").shuffle().map(Gate("stall"), name="wait").sink(slow, name="slow")
    opened = flow.source(tr.sources.items([2]), name="two").shuffle().map(Opener("stall"), name="open")
    opened.sink(fast, name="fast")
    query, _ = started(flow, workers=1, handoff_ms=20)
    assert query.awaitTermination(HANG_S)
    assert (slow.values, fast.values) == ([1], [2])


class Gate:
    events: ClassVar[dict[str, threading.Event]] = {}

    def __init__(self, name):
        self.name = name

    def __call__(self, value):
        assert self.events[self.name].wait(HANG_S)
        return value


class Opener(Gate):
    def __call__(self, value):
        time.sleep(0.05)  # so that the other one is reached first now and then
        self.events[self.name].set()
        return value


class Awaited(Operator):
    """Awaits its values and blocks in its ticks, so that the loop is handed on from under it."""

    tick_every_s = 0.03

    async def process(self, value):
        await asyncio.sleep(0.01)
        return [value * 2]

    def tick(self, now_s):
        time.sleep(0.05)


def test_an_awaited_operator_with_blocking_ticks_stays_awaited():
    flow, sink = tr.Topology("awaited"), tr.sinks.collect()
    stream = flow.source(tr.sources.rate(400, count=120)).process(Awaited, concurrency=4)
    stream.sink(sink)
    query, _ = started(flow, workers=1, handoff_ms=10)
    assert query.awaitTermination(HANG_S)
    assert sorted(sink.values) == [2 * n for n in range(120)]


def test_a_failing_operator_comes_back_with_its_place_and_value():
    flow = tr.Topology("failing")
    flow.source(tr.sources.items([1, 2, 0])).map(lambda v: 6 // v, name="divide").sink(tr.sinks.discard())
    query = Query(flow, ThreadHost(2), Policy(), Settings())
    with pytest.raises(OperatorError, match=r"'divide', task 0, failed on 0: ZeroDivisionError"):
        query.start().awaitTermination(HANG_S)
    assert isinstance(query.exception(), OperatorError)
    assert not query.isActive


class Broken(QueryListener):
    def __init__(self):
        self.told = []

    def onQueryProgress(self, query, progress):  # noqa: N802
        self.told.append("progress")
        raise RuntimeError("a listener's own mistake")

    def onQueryTerminated(self, query, error):  # noqa: N802
        self.told.append("terminated")
        raise RuntimeError("another one")


def test_a_listener_that_raises_does_not_end_the_query(caplog):
    flow, sink = tr.Topology("listened"), tr.sinks.collect()
    flow.source(tr.sources.rate(100, count=30)).sink(sink)
    host = ThreadHost(1)
    query = Query(flow, host, Policy(), Settings(progress_s=0.05))
    listener = Broken()
    query.addListener(listener)
    query.start()
    assert query.awaitTermination(HANG_S)
    assert len(sink.values) == 30
    assert listener.told[-1] == "terminated"
    assert "progress" in listener.told
    assert "a listener of query" in caplog.text


def test_stop_drains_and_stop_now_does_not_wait():
    flow, sink = tr.Topology("endless"), tr.sinks.collect()
    flow.source(tr.sources.rate(2000)).sink(sink)
    query, host = started(flow)
    while not sink.values:
        time.sleep(0.01)
    query.stop()
    assert sorted(sink.values) == list(range(len(sink.values)))
    assert query.exception() is None
    assert host.errors == []
    query, host = started(flow)
    query.stop(now=True)
    assert not query.isActive
    assert query.exception() is None


def test_a_worker_that_hears_nothing_leaves():
    """The coordinator is silent, as behind a partition: the worker must stop by itself."""
    flow = tr.Topology("lease")
    flow.source(tr.sources.rate(10)).sink(tr.sinks.discard())
    query, host = started(flow, workers=1, lease_s=0.4)
    with query._loop._lock:  # the coordinator's thread stands still
        deadline_s = time.monotonic() + HANG_S
        while not host.errors and time.monotonic() < deadline_s:
            time.sleep(0.02)
    assert [type(error).__name__ for error in host.errors] == ["LeaseLostError"]
    query.stop(now=True)
