"""``top_k`` of updates: a key counts once, with what was last said of it, whether that rose or fell."""

from __future__ import annotations

import heapq
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailrace as tr
from tailrace import testing
from tailrace.topology.errors import OptionError
from tailrace.topology.ranking import LargestKeys
from tailrace.topology.split import top_k

UPDATES = st.lists(st.tuples(st.integers(0, 12), st.integers(-50, 50)), max_size=120)


def largest(updates, k):
    """What a plain loop finds: the ranks of the k largest keys."""
    last = dict(updates)
    return heapq.nlargest(k, last.values())


@given(UPDATES, st.integers(1, 6), st.lists(st.booleans(), min_size=120, max_size=120))
def test_a_part_knows_the_largest_at_every_tick(updates, k, ticks):
    part = LargestKeys(k, itemgetter(0), itemgetter(1), 0.1)
    seen = []
    for update, ticked in zip(updates, ticks, strict=False):
        seen.append(update)
        part.process(update)
        if ticked:
            ((_, told),) = part.tick(0.0)
            assert [rank for _, rank in told] == largest(seen, k)
            assert all(dict(seen)[key] == rank for key, rank in told)
            assert part.tick(0.0) is None


@given(UPDATES, st.integers(1, 6))
def test_a_part_goes_on_elsewhere(updates, k):
    one, other = LargestKeys(k, itemgetter(0), itemgetter(1), 0.1), LargestKeys(k, itemgetter(0), itemgetter(1), 0.1)
    half = len(updates) // 2
    for update in updates[:half]:
        one.process(update)
    one.tick(0.0)
    other.restore(one.snapshot())
    for update in updates[half:]:
        other.process(update)
    told = other.close()
    assert told is None or [rank for _, rank in told[0][1]] == largest(updates, k)


def results(draw, values, seed=3):
    flow = tr.Topology("ranked")
    draw(flow.source(testing.TestSource(values))).sink(testing.TestSink(), name="out", tasks=1)
    return testing.run(flow, workers=3, seed=seed).values()


VALUES = [(at * 37) % 11 for at in range(500)] + [3] * 40 + [7] * 20


@pytest.mark.parametrize("emit", ["update", "final"])
def test_counts_are_ranked_by_key_and_not_by_update(emit):
    found = results(lambda s: top_k(s.key_by(lambda v: v).count(tasks=2, emit=emit), 2, tasks=3), VALUES)
    totals = {value: VALUES.count(value) for value in VALUES}
    assert found[-1] == sorted(totals.items(), key=itemgetter(1), reverse=True)[:2]
    assert all(len(dict(ranking)) == len(ranking) for ranking in found)


def test_values_that_fall_make_room():
    updates = [("a", 9), ("b", 5), ("c", 4), ("a", 1), ("d", 2)]
    assert results(lambda s: top_k(s, 2, tasks=2, key=itemgetter(0), by=itemgetter(1)), updates)[-1] == [
        ("b", 5),
        ("c", 4),
    ]


def test_a_keyed_stream_has_its_key():
    rows = [{"user": f"u{at % 7}", "at": at} for at in range(100)]
    found = results(lambda s: top_k(s.key_by(lambda row: row["user"]), 3, tasks=2, by=lambda row: row["at"]), rows)
    assert [row["at"] for row in found[-1]] == [99, 98, 97]


def test_by_goes_before_what_is_understood():
    counted = results(
        lambda s: top_k(s.key_by(lambda v: v).count(tasks=2), 2, tasks=2, by=itemgetter(0)), [1, 1, 1, 2, 3]
    )
    assert counted[-1] == [(3, 1), (2, 1)]


def test_updates_that_are_united_need_a_key():
    flow = tr.Topology("united")
    numbers = flow.source(testing.TestSource([1])).key_by(lambda v: v)
    both = numbers.count(name="one").union(numbers.reduce(max, name="two"))
    with pytest.raises(OptionError, match="'one', 'two' are united"):
        top_k(both, 2, tasks=1)
    top_k(both, 2, tasks=1, key=itemgetter(0))


def test_streams_without_keys_are_ranked_as_before():
    assert results(lambda s: top_k(s, 3, tasks=2), VALUES)[-1] == [10, 10, 10]
