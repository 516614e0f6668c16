"""A query on Spark that gets more workers by a further job, and gives them back."""

from __future__ import annotations

from collections import Counter

import pytest
from tests import sparks
from tests.queries import PATIENT, completed, ending, until

import tailrace as tr

pytestmark = pytest.mark.spark
KEYS = 32


def follow(key, value, state):
    number = (state.get() or 0) + 1
    state.set(number)
    return [(key, value, number)]


def test_workers_join_and_leave_while_the_query_runs():
    flow, out = tr.Topology("scaled"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(1000), name="numbers")
    numbers.key_by(lambda value: value % KEYS).process(follow, tasks=4, name="follow").sink(out, tasks=1, name="end")
    settings = tr.Settings(**PATIENT, progress_s=0.2)
    with ending(tr.start(flow, sparks.session(), workers=2, settings=settings)) as query:
        until(lambda: completed(query) > 0, "progress", query)
        query.scale(4)
        assert {slot for row in query._brain.placement for slot in row} == {0, 1, 2, 3}
        before = completed(query)
        until(lambda: completed(query) > before + 500, "progress", query)
        query.scale(2)
        assert sorted(query._brain.members) == [0, 1]
        query.stop()
        (read_up_to,) = query._brain._marks.values()
    assert Counter(value for _, value, _ in out.values) == Counter(range(read_up_to))
    assert all(number == value // KEYS + 1 for _, value, number in out.values)
