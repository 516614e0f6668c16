"""Groupings: which tasks of a sink get which values."""

from __future__ import annotations

import pytest

import tailrace as tr
from tailrace.routing.fixed import RouteError
from tailrace.testing import TestSink, TestSource

VALUES = list(range(120))


def sent_by(run, grouped, tasks=3):
    """Run a source of two tasks into a sink of three under a grouping; gives what each task got."""
    flow, out = tr.Topology("grouped"), TestSink()
    grouped(flow.source(TestSource(VALUES, partitions=2), tasks=2)).sink(out, tasks=tasks)
    run(flow)
    return {task: sorted(values) for task, values in out.by_task.items()}


@pytest.mark.parametrize("way", ["shuffle", "local_or_shuffle"])
def test_each_value_to_one_task_and_all_tasks_used(run, way):
    got = sent_by(run, lambda stream: getattr(stream, way)())
    assert sorted(value for values in got.values() for value in values) == VALUES
    assert len(got) > 1


def test_broadcast_to_every_task(run):
    assert sent_by(run, lambda stream: stream.broadcast()) == {0: VALUES, 1: VALUES, 2: VALUES}


def test_global_to_the_first(run):
    assert sent_by(run, lambda stream: stream.to_global()) == {0: VALUES}


def test_direct_to_the_one_that_is_named(run):
    def addressed(value):
        return tr.direct(value % 3, value)

    got = sent_by(run, lambda stream: stream.map(addressed).direct())
    assert got == {task: [v for v in VALUES if v % 3 == task] for task in range(3)}


def test_a_function_of_the_user_names_one_or_several(run):
    def choose(value, tasks):
        return [0, tasks - 1] if value % 2 else 1

    odd, even = VALUES[1::2], VALUES[::2]
    assert sent_by(run, lambda stream: stream.group_by(choose)) == {0: odd, 1: even, 2: odd}


def test_a_task_that_does_not_exist_is_a_named_error(run):
    with pytest.raises(RouteError, match="from 0 to 2"):
        sent_by(run, lambda stream: stream.group_by(lambda value, tasks: tasks))


def test_shuffle_without_tracking(run):
    flow, out = tr.Topology("untracked"), TestSink()
    flow.source(TestSource(VALUES)).shuffle().map(lambda v: v, tasks=3).shuffle().sink(out, tasks=2)
    run(flow, policy=tr.Policy(replay="off", chaining="off"))
    assert sorted(out.values) == VALUES
    assert len(out.by_task) == 2
