"""A sink that is a hundred times slower for a while: queues stay within their bounds and the source is held back."""

from __future__ import annotations

import os
import time

import pytest
from tests.queries import PATIENT, completed, ending, pids, resident_bytes, until

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query
from tailrace.topology.contracts import Sink
from tailrace.worker.execution.task import VALUES_PER_TURN_MAX

pytestmark = pytest.mark.chaos

SETTINGS = tr.Settings(progress_s=0.2, max_pending=2000, inbox_tuples=1000, outbox_tuples=500, **PATIENT)
#: Outboxes of a stage: the source has one for each of two carriers, the carriers have one each.
WAYS = 2
GROWTH_BYTES_MAX = 48 << 20


class Slowed(Sink):
    """Takes 20 us for a value, and 2 ms while the file is there; counts what came, by value."""

    def __init__(self, brake):
        self.brake = str(brake)

    def open(self, ctx):
        self.ctx, self.seen = ctx, {}

    def write(self, values):
        for value in values:
            self.seen[value] = self.seen.get(value, 0) + 1
        time.sleep(len(values) * (2e-3 if os.path.exists(self.brake) else 2e-5))  # noqa: PTH110

    def close(self):
        self.ctx.emit_to_driver(self.seen)

    def receive(self, values):
        self.received = values


def padded(value):
    """Large enough for a queue without bound to show in the memory of a process."""
    return value, b"x" * 1000


def watched(query, count):
    """So many reports, one after the other."""
    reports = [query.lastProgress]

    def enough():
        if query.lastProgress["sequence"] > reports[-1]["sequence"]:
            reports.append(query.lastProgress)
        return len(reports) >= count

    until(enough, f"{count} reports", query)
    return reports


@pytest.mark.parametrize("count", [30, pytest.param(300, marks=pytest.mark.soak)])
def test_everything_stays_within_its_bound(tmp_path, count):
    brake = tmp_path / "brake"
    flow, sink = tr.Topology("slow"), Slowed(brake)
    carried = flow.source(tr.sources.rate(float("inf"))).map(padded).shuffle().map(lambda pair: pair, tasks=2)
    carried.map(lambda pair: pair[0], tasks=1).sink(sink)
    with ending(Query(flow, testing.ProcessHost(3), tr.Policy(), SETTINGS).start()) as query:
        until(lambda: completed(query) > 20_000, "speed", query)
        workers = pids(query).values()
        before = query.lastProgress
        memory = {pid: resident_bytes(pid) for pid in workers}
        brake.touch()
        reports = watched(query, count)
        grown = {pid: resident_bytes(pid) - memory[pid] for pid in workers}
        after = reports[-1]
        brake.unlink()
        query.stop()
    bounded(reports)
    assert all(each < GROWTH_BYTES_MAX for each in grown.values()), grown
    # Held back: nothing was read beyond what may be open.
    read = [report["stages"][0]["read"] for report in (before, after)]
    done = [report["completed"] for report in (before, after)]
    assert read[1] - read[0] <= done[1] - done[0] + SETTINGS.max_pending
    # Nothing dropped, nothing doubled.
    everything = query.lastProgress["stages"][0]["read"]
    assert sink.received == dict.fromkeys(range(everything), 1)
    assert query.lastProgress["replays"] == 0


def bounded(reports):
    """No report shows a queue beyond its setting; what one turn gives at once may come on top of an outbox."""
    for report in reports:
        assert report["pending"] <= SETTINGS.max_pending
        for stage in report["stages"]:
            assert stage["inboxMost"] <= SETTINGS.inbox_tuples, stage
            assert stage["outbox"] <= WAYS * (SETTINGS.outbox_tuples + VALUES_PER_TURN_MAX), stage
