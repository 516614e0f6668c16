"""Large values, many outputs and slow ends: what waits is bounded in bytes, and nothing is lost by that."""

from __future__ import annotations

import os
import time

import pytest
from tests.queries import PATIENT, completed, ended, ending, pids, resident_bytes, until

import tailrace as tr
from tailrace import testing
from tailrace.connect.sinks import Collect
from tailrace.coordinator.query import Query
from tailrace.topology.contracts import Reader, Records, Sink, Source

MIB = 1 << 20
SETTINGS = tr.Settings(progress_s=0.1, queue_bytes=24 * MIB, **PATIENT)
#: Queues of all tasks of a worker, each up to twice its bytes and a batch, and what a turn makes on top.
GROWTH_MIB_MAX = 140
#: Long enough for a queue without bound to grow past that many times over.
WATCHED_S = 2.0


def large(value):
    return value, b"x" * MIB


def number_of(pair):
    return pair[0]


class Slow(Sink):
    """Takes a while for each value, and tells the driver which came."""

    def open(self, ctx):
        self._ctx, self._seen = ctx, []

    def write(self, values):
        time.sleep(0.01 * len(values))
        self._seen += [value if isinstance(value, int) else value[0] for value in values]

    def close(self):
        self._ctx.emit_to_driver(self._seen)

    def receive(self, values):
        self.seen = values


class LargeRecords(Source):
    """Makes records of a mebibyte as fast as they are read."""

    label = "large"
    bounded = True

    def partitions(self):
        return ["all"]

    def open(self, partition, offset, clock):
        return _LargeReader(offset)


class _LargeReader(Reader):
    def __init__(self, offset):
        self._next = offset

    def read(self, max_records):
        offsets = list(range(self._next, self._next + max_records))
        self._next += max_records
        return Records(offsets, list(map(large, offsets)))

    @property
    def finished(self):
        return False


class Ticker(tr.Operator):
    """Gives a mebibyte a hundred times a second, for nothing."""

    tick_every_s = 0.001

    def process(self, value):
        return ()

    def tick(self, now_s):
        return [large(number) for number in range(8)]


def made_by_a_map(sink):
    flow = tr.Topology("large")
    numbers = flow.source(tr.sources.rate(float("inf")))
    numbers.shuffle().map(large, tasks=1).shuffle().map(lambda pair: pair, tasks=2).sink(sink, tasks=1)
    return flow


def read_by_a_source(sink):
    flow = tr.Topology("large")
    flow.source(LargeRecords()).shuffle().map(lambda pair: pair, tasks=2).sink(sink, tasks=1)
    return flow


def made_by_ticks(sink):
    flow = tr.Topology("ticks")
    flow.source(tr.sources.rate(10)).process(Ticker, tasks=1).shuffle().map(lambda pair: pair).sink(sink, tasks=1)
    return flow


def many_outputs(sink):
    flow = tr.Topology("many")
    many = (
        flow.source(tr.sources.rate(float("inf")))
        .shuffle()
        .flat_map(lambda value: [(value, f"{number:0>100}") for number in range(100_000)], tasks=1, blocking=True)
    )
    many.shuffle().filter(lambda pair: pair[1].endswith("00000"), tasks=1).sink(sink, tasks=1)
    return flow


def grown_most(watched):
    """How much each process grows at most in a while, in MiB."""
    before = {pid: resident_bytes(pid) for pid in watched}
    most = dict.fromkeys(watched, 0)
    until_s = time.monotonic() + WATCHED_S
    while time.monotonic() < until_s:
        for pid in watched:
            most[pid] = max(most[pid], (resident_bytes(pid) - before[pid]) // MIB)
        time.sleep(0.02)
    return most


@pytest.mark.parametrize("draw", [made_by_a_map, read_by_a_source, made_by_ticks, many_outputs])
def test_a_slow_end_does_not_fill_the_memory(draw):
    sink = Slow()
    with ending(Query(draw(sink), testing.ProcessHost(2), tr.Policy(), SETTINGS).start()) as query:
        most = grown_most(pids(query).values())
        until(lambda: completed(query) > 0, "a root is complete", query)
        assert query.lastProgress["replays"] == 0
    assert max(most.values()) < GROWTH_MIB_MAX, most


@pytest.mark.parametrize("chained", [True, False])
def test_a_slow_receive_on_the_driver_holds_the_workers_back(chained):
    class SlowlyReceived(Collect):
        def receive(self, values):
            time.sleep(0.05)
            self.count = getattr(self, "count", 0) + len(values)

    flow, out = tr.Topology("received"), SlowlyReceived(10**9)
    numbers = flow.source(tr.sources.rate(float("inf")))
    (numbers if chained else numbers.shuffle()).map(large).sink(out)
    with ending(Query(flow, testing.ProcessHost(2), tr.Policy(), SETTINGS).start()) as query:
        most = grown_most([os.getpid(), *pids(query).values()])
        until(lambda: getattr(out, "count", 0) > 10, "the sink gets on", query)
        assert query.lastProgress["replays"] == 0
    assert max(most.values()) < GROWTH_MIB_MAX, most


def test_a_flood_of_log_lines_is_held_back_and_what_is_dropped_is_told(caplog):
    def talkative(value):
        for _ in range(100):
            print("x" * 1000)  # noqa: T201 - what is tested
        return value

    flow = tr.Topology("talk")
    flow.source(tr.sources.rate(float("inf"))).shuffle().map(talkative, tasks=2, name="talkative").sink(
        tr.sinks.discard()
    )
    with ending(Query(flow, testing.ProcessHost(2), tr.Policy(), SETTINGS).start()) as query, caplog.at_level("INFO"):
        most = grown_most([os.getpid(), *pids(query).values()])
        until(lambda: "dropped" in caplog.text, "it is told how many lines were dropped", query)
    assert max(most.values()) < GROWTH_MIB_MAX, most


@pytest.mark.parametrize("policy", [tr.Policy(), tr.Policy.auto(), tr.Policy(inbox="shared")])
def test_large_values_all_arrive_once(policy):
    sizes = [0, 10, 3000, MIB, 50, 200_000]
    flow, out = tr.Topology("sizes"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(float("inf"), count=400))
    blown = numbers.shuffle().map(lambda value: (value, "x" * sizes[value % len(sizes)]), tasks=2)
    blown.shuffle().map(lambda pair: (pair[0], len(pair[1])), tasks=2).sink(out)
    with ending(Query(flow, testing.ProcessHost(2), policy, SETTINGS).start()) as query:
        ended(query)
    assert sorted(out.values) == [(value, sizes[value % len(sizes)]) for value in range(400)]
