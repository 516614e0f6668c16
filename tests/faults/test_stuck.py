"""User code that does not come back is named: operator, task, worker, how long, and where it is."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from tests.queries import ended, ending, until

import tailrace as tr
from tailrace import testing
from tailrace.cli import board
from tailrace.coordinator.errors import StartError
from tailrace.coordinator.query import Query
from tailrace.worker.stuck import NO_OPERATOR

QUICK = {"progress_s": 0.1, "stuck_after_s": 0.3, "lease_s": 2.0}


def started(flow, workers=1, **settings):
    settings = tr.Settings(**{"register_timeout_s": 200.0, **QUICK, **settings})
    return Query(flow, testing.ProcessHost(workers), tr.Policy(), settings).start()


def stuck(query, operator=None):
    """What is told of an operator, or of all; a worker that gets no core in time is told of too."""
    rows = (query.lastProgress or {}).get("stuck", [])
    return [row for row in rows if operator in {None, row["operator"]}]


def spins(value):
    while True:
        pass


def waits(value):
    time.sleep(3600)


async def awaits(value):
    await asyncio.sleep(3600)


class Waits(tr.Operator):
    tick_every_s = 0.01

    def process(self, value):
        return [value]

    def tick(self, now_s):
        time.sleep(3600)


class Silent(tr.Source):
    def partitions(self):
        return ["only"]

    def open(self, partition, offset, clock):
        return SilentReader()


class SilentReader(tr.Reader):
    finished = False

    def read(self, max_records):
        time.sleep(3600)


CASES = {
    "spinning": (lambda s: s.shuffle().map(spins, name="culprit"), "in spins"),
    "spinning in a chain": (lambda s: s.map(str, name="first").map(spins, name="culprit").map(str), "in spins"),
    "waiting": (lambda s: s.shuffle().map(waits, name="culprit"), "in waits"),
    "waiting in a thread": (lambda s: s.shuffle().map(waits, name="culprit", blocking=True), "in waits"),
    "awaiting": (lambda s: s.shuffle().map(awaits, name="culprit"), "in awaits"),
    "ticking": (lambda s: s.shuffle().process(Waits, name="culprit"), "in tick"),
}


@pytest.mark.parametrize(("draw", "place"), CASES.values(), ids=CASES)
def test_an_operator_that_does_not_come_back_is_named_with_its_stack(draw, place):
    flow = tr.Topology("stuck")
    draw(flow.source(tr.sources.rate(500), name="numbers")).shuffle().sink(tr.sinks.discard(), name="end")
    with ending(started(flow)) as query:
        told = []
        until(lambda: told.extend(stuck(query, "culprit")) or told, "the operator is named", query)
        row = told[0]
        assert (row["task"], row["worker"]) == (0, 0)
        assert place in row["stack"]
        assert "/tailrace/worker/" not in row["stack"]
        assert {each["operator"] for each in stuck(query)} <= {"culprit", NO_OPERATOR}
        until(lambda: "culprit[0] on worker 0" in board.line(query.lastProgress), "the line names it", query)
        told = query.explain(text=True)
        assert "culprit[0] on worker 0: has not come back for" in told
        assert place in told


def test_a_source_that_does_not_come_back_is_named():
    flow = tr.Topology("silent")
    flow.source(Silent(), name="culprit").shuffle().sink(tr.sinks.discard())
    with ending(started(flow)) as query:
        told = []
        until(lambda: told.extend(stuck(query, "culprit")) or told, "the source is named", query)
        assert told[0]["task"] == 0
        assert "in read" in told[0]["stack"]


def test_a_worker_held_up_by_a_key_function_is_not_taken_for_lost_and_says_where_it_is(tmp_path):
    """A key function runs on the worker's loop, which then does not listen for longer than twice its lease."""
    gate = tmp_path / "open"

    def key_that_waits(value):
        while not gate.exists():
            time.sleep(0.01)
        return value % 3

    flow, out = tr.Topology("keys"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(500, count=100), name="numbers").key_by(key_that_waits)
    numbers.count(name="counts", tasks=2).sink(out)
    with ending(started(flow, lease_s=0.5, stuck_after_s=0.2)) as query:
        told = []
        until(
            lambda: told.extend(stuck(query, "numbers")) or (told and told[-1]["seconds"] > 1.5), "where it is", query
        )
        assert "in key_that_waits" in told[-1]["stack"]
        gate.touch()
        ended(query)
        assert query.lastProgress["workers"]["restarts"] == 0
    assert len(out.values) == 100


class SlowToOpen(tr.Operator):
    def open(self, ctx):
        time.sleep(3600)

    def process(self, value):
        return [value]


def test_an_open_that_does_not_come_back_is_named_in_the_status_and_in_the_error():
    flow = tr.Topology("opening")
    opening = flow.source(tr.sources.rate(10), name="numbers").shuffle().process(SlowToOpen, name="culprit")
    opening.shuffle().sink(tr.sinks.discard())
    settings = tr.Settings(register_timeout_s=3.0, **QUICK)
    query = Query(flow, testing.ProcessHost(1), tr.Policy(), settings)
    said = []

    def watch():
        while query.isActive:
            said.append(query.status["message"])
            time.sleep(0.05)

    watching = threading.Thread(target=watch)
    watching.start()
    with pytest.raises(StartError) as caught:
        query.start()
    watching.join()
    assert "'culprit', task 0, on worker 0 (127.0.0.1) for" in caught.value.message
    assert "in open" in caught.value.hint
    assert any(text.startswith("Opening operators: 'culprit', task 0, on worker 0") for text in said)


def test_what_comes_back_is_stuck_no_more(tmp_path):
    gate = tmp_path / "open"

    def waits_for_the_gate(value):
        while not gate.exists():
            time.sleep(0.01)
        return value

    flow = tr.Topology("gate")
    numbers = flow.source(tr.sources.rate(500), name="numbers")
    numbers.shuffle().map(waits_for_the_gate, name="gate").shuffle().sink(tr.sinks.discard())
    with ending(started(flow)) as query:
        until(lambda: stuck(query), "it is named", query)
        gate.touch()
        until(lambda: not stuck(query), "it is named no more", query)
        query.stop()
