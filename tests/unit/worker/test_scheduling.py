"""Which work a worker finds when much of what waits for it has been seen before."""

from __future__ import annotations

from tests.unit.heads import batch_of

import tailrace as tr
from tailrace import testing
from tailrace.batch import root_id


def test_duplicates_in_front_are_passed_over_to_find_what_is_new():
    """To give up at a batch of duplicates would look like idleness, and the loop would sleep on a full inbox."""
    source, flow = testing.TestSource([1], open_ended=True), tr.Topology("again")
    flow.source(source).shuffle().sink(testing.TestSink())
    with testing.InProcess(flow, workers=2) as query:
        query.settle()
        sink = query.brain.placement[1][0]
        brain = query._find(sink, 1).brain
        (task,) = brain.tasks
        (seen,) = task.guard._generations[-1].seen
        (channel,) = task.inbox.channels.values()
        for lineage in (seen, seen, seen, 12345):
            batch = batch_of([lineage], None, [root_id(1, 7)], [0], [lineage])
            brain._delivery._deliver(task, channel, batch, query.clock.now_ns())
        work = brain.next_work()
    assert work is not None
    assert work.batch.values == [12345]
    assert task.guard.dropped == 3
