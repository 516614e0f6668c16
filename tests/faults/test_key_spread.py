"""Few short keys keep all tasks of a keyed operator busy, not one of them."""

from __future__ import annotations

import pytest

import tailrace as tr
from tailrace.testing import TestSink, TestSource, run

SETS = {
    "ten numbers": (list(range(10)), 2),
    "ten letters": (list("abcdefghij"), 2),
    "the hours of a day": (list(range(24)), 4),
}


@pytest.mark.parametrize("name", SETS)
def test_every_task_has_a_fair_share_of_the_keys(name):
    keys, tasks = SETS[name]
    flow, out = tr.Topology("spread"), TestSink()
    flow.source(TestSource(keys * 5)).key_by(lambda key: key).count(tasks=tasks).sink(out, tasks=tasks)
    run(flow, workers=2)
    loads = {task: len({key for key, _ in values}) for task, values in out.by_task.items()}
    assert sum(loads.values()) == len(keys)
    assert set(loads) == set(range(tasks))
    assert max(loads.values()) <= 2 * len(keys) / tasks
    assert min(loads.values()) >= len(keys) / tasks / 3
