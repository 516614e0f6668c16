"""Workers of one node that take from one queue, as plain processes; the owner and another one are killed."""

from __future__ import annotations

import os
import signal

import pytest
from tests.queries import PATIENT, all_open, completed, ended, ending, pids, running_counts, two_keys, until

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query

pytestmark = pytest.mark.chaos


def test_counts_are_exact_when_the_owner_of_a_queue_and_one_that_takes_from_it_are_killed():
    flow, out = tr.Topology("shared"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(2000, count=6000)).shuffle()
    keys = numbers.flat_map(two_keys, tasks=3, name="work")
    keys.key_by(lambda key: key).count(name="counts", tasks=1).shuffle().sink(out, tasks=1)
    settings = tr.Settings(progress_s=0.1, **PATIENT)
    with ending(Query(flow, testing.ProcessHost(6), tr.Policy(inbox="shared"), settings).start()) as query:
        (owner,) = set(query._brain.queues[1])
        other = next(slot for slot in query._brain.placement[1] if slot != owner)
        for kill, (victim, after) in enumerate(((other, 500), (owner, 2500)), start=1):
            until(lambda after=after: completed(query) > after, "progress", query)
            os.kill(pids(query)[victim], signal.SIGKILL)
            until(lambda kill=kill: query._brain.restarts == kill and all_open(query), "a successor", query)
        ended(query)
    assert sorted(out.values) == running_counts(6000)
    assert query.lastProgress["replays"] > 0
