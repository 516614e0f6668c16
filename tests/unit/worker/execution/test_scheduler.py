"""Which work a worker finds when much of what waits for it has been seen before."""

from __future__ import annotations

import pytest
from tests.unit.heads import batch_of
from tests.unit.worker.mesh import Mesh
from tests.unit.worker.rig import Kept

import tailrace as tr
from tailrace import testing
from tailrace.batch import root_id
from tailrace.config import Settings
from tailrace.topology.contracts import NO_RECORDS, Reader, Records, Source
from tailrace.worker.execution.task import Work


def test_duplicates_in_front_are_passed_over_to_find_what_is_new():
    """To give up at a batch of duplicates would look like idleness, and the loop would sleep on a full inbox."""
    source, flow = testing.TestSource([1], open_ended=True), tr.Topology("again")
    flow.source(source).shuffle().sink(testing.TestSink())
    with testing.InProcess(flow, workers=2) as query:
        query.settle()
        sink = query.brain.placement[1][0]
        brain = query._find(sink, 1).brain
        (task,) = brain.tasks
        (seen,) = task.deduplicator._generations[-1].seen
        (channel,) = task.inbox.channels.values()
        for lineage in (seen, seen, seen, 12345):
            batch = batch_of([lineage], None, [root_id(1, 7)], [0], [lineage])
            brain.deployment.delivery._deliver(task, channel, batch, query.clock.now_ns())
        work = brain.next_work()
    assert work is not None
    assert work.batch.values == [12345]
    assert task.deduplicator.dropped == 3


@pytest.mark.parametrize(("cost_ns", "pieces"), [(2_000, 8), (400_000, 5), (4_000_000, 2)])
def test_what_is_with_a_thread_takes_about_a_slice_but_two_turns_at_least(cost_ns, pieces):
    """A move has to wait for all of it."""
    flow = tr.Topology("threads")
    flow.source(testing.TestSource([1])).shuffle().map(str, blocking=True, name="slow").sink(testing.TestSink())
    with testing.InProcess(flow, workers=1) as query:
        task = next(each for each in query._find(0, 1).brain.tasks if each.stage.head.name == "slow")
        for _ in range(50):
            work = Work(task, batch_of([1], None, [root_id(1, 0)], [0], [1]))
            work.took_ns = cost_ns
            task.account(work)
        task.values_per_turn(2_000_000)
        assert task.pieces_max == pieces


class Paced(Source):
    """One record, then nothing for so many seconds."""

    label = "paced"
    bounded = False

    def __init__(self, wait_s):
        self.wait_s = wait_s

    def partitions(self):
        return ["only"]

    def open(self, partition, offset, clock):
        del partition, offset, clock
        return PacedReader(self.wait_s)


class PacedReader(Reader):
    finished = False

    def __init__(self, wait_s):
        self._left, self._wait_s = 1, wait_s

    def wait_s(self):
        return 0.0 if self._left else self._wait_s

    def read(self, max_records):
        del max_records
        if not self._left:
            return NO_RECORDS
        self._left = 0
        return Records(range(1), ["a"])


@pytest.mark.parametrize(
    ("wait_s", "max_pending", "patient"),
    [(0.001, 10, True), (0.05, 10, False), (0.001, 1, False)],
    ids=["wakes soon", "sleeps long", "needs the ack"],
)
def test_acks_may_wait_for_a_worker_that_wakes_soon_and_needs_none(wait_s, max_pending, patient):
    flow = tr.Topology("paced")
    flow.source(Paced(wait_s)).shuffle().sink(Kept("paced"))
    mesh = Mesh(flow, [[0], [1]], settings=Settings(max_pending=max_pending))
    mesh.turn(0)
    assert mesh.brains[0].next_work() is None
    wait_us = mesh.brains[0].wait_us()
    assert mesh.brains[0].patient is patient
    if max_pending > 1:
        assert wait_us == pytest.approx(wait_s * 1e6, abs=1)
