"""``Policy(routing="stamped")`` in a query: a key changes sides every tau, counts are exact, replay is refused."""

from __future__ import annotations

import pytest

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.errors import ConfigError
from tailrace.testing import InProcess, TestSink, TestSource

STAMPED = Policy(routing="stamped", replay="off")


def hot(source):
    flow = tr.Topology("hot")
    flow.source(source).key_by(str).count(tasks=4, name="count").sink(TestSink(), name="out")
    return flow


def loads(query):
    tasks = [task for cell in query._cells.values() for task in cell.brain.tasks]
    return sorted(task.tuples_in for task in tasks if task.stage.head.name == "count_parts")


def test_a_key_goes_to_one_task_per_interval_and_to_two_in_all():
    source = TestSource(["hot"] * 50, open_ended=True)
    with InProcess(hot(source), workers=4, policy=STAMPED, settings=Settings(gate_tau_ms=10.0)) as query:
        query.settle()
        assert loads(query) == [0, 0, 0, 50]
        query.advance(0.01)
        source.feed(["hot"] * 30)
        query.settle()
        assert loads(query) == [0, 0, 30, 50]
        source.end()
        assert dict(query.finish().values()) == {"hot": 80}


def test_a_stream_that_may_be_replayed_is_refused():
    with pytest.raises(ConfigError, match="needs replay='off'"):
        InProcess(hot(TestSource([])), policy=Policy(routing="stamped"))
