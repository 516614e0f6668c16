"""Operators split into parts and a merge give what one task would have given."""

from __future__ import annotations

from collections import Counter

import pytest

import tailrace as tr
from tailrace import testing
from tailrace.topology.errors import OptionError
from tailrace.topology.split import in_order, top_k, total, with_partial_keys

VALUES = [(at * 37) % 101 for at in range(300)]


def results(draw, values=VALUES):
    flow = tr.Topology("split")
    draw(flow.source(testing.TestSource(values))).sink(testing.TestSink(), name="out", tasks=1)
    return testing.run(flow, workers=3, seed=2).values()


def test_the_last_top_k_is_that_of_all_values():
    assert results(lambda s: top_k(s, 4, tasks=3))[-1] == sorted(VALUES, reverse=True)[:4]
    assert results(lambda s: top_k(s, 2, tasks=3, by=lambda v: -v))[-1] == sorted(VALUES)[:2]


def test_the_last_total_is_that_of_all_values():
    assert results(lambda s: total(s, tasks=3))[-1] == sum(VALUES)


def test_a_stream_that_ends_is_sorted_once():
    assert results(lambda s: in_order(s, tasks=3)) == [sorted(VALUES)]


def test_top_of_nothing_is_refused():
    with pytest.raises(OptionError, match="k of at least 1"):
        results(lambda s: top_k(s, 0, tasks=2))


def last_of_each(pairs):
    return dict(pairs)


@pytest.mark.parametrize("verb", ["count", "reduce"])
def test_partial_keys_end_at_the_same_results(verb):
    flow = tr.Topology("partial")
    keyed = flow.source(testing.TestSource(VALUES)).key_by(lambda v: v % 7)
    counted = keyed.count(tasks=3) if verb == "count" else keyed.reduce(lambda a, b: a + b, tasks=3)
    counted.sink(testing.TestSink(), name="out", tasks=1)
    rewritten = with_partial_keys(flow)
    rewritten.validate()
    assert [spec.verb for spec in rewritten.operators.values()] == ["source", "process", "aggregate", "sink"]
    expected = Counter(v % 7 for v in VALUES)
    if verb == "reduce":
        expected = {key: sum(v for v in VALUES if v % 7 == key) for key in range(7)}
    assert last_of_each(testing.run(rewritten, workers=3, seed=1).values()) == expected


def test_what_cannot_be_merged_stays_as_it_was():
    flow = tr.Topology("left")
    stream = flow.source(testing.TestSource(VALUES))
    stream.key_by(len).count(tasks=1, name="one").sink(tr.sinks.discard())
    stream.key_by(len, ordered=True).count(tasks=3, name="ordered").sink(tr.sinks.discard())
    stream.key_by(len).process(lambda k, v, s: [v], tasks=3, name="own").sink(tr.sinks.discard())
    assert with_partial_keys(flow).operators == flow.operators
