"""Task counts that nobody gave."""

from __future__ import annotations

from tailrace.connect import sinks, sources
from tailrace.topology.counts import task_counts, upstream_first
from tailrace.topology.graph import Topology


def test_counts_come_from_upstream_and_sources_have_one():
    flow = Topology("flow")
    one = flow.source(sources.items([1]), name="one").map(str, name="a")
    three = flow.source(sources.items([1]), name="three", tasks=3)
    three.key_by(int).count(name="keyed").sink(sinks.discard(), tasks=2, name="end")
    one.union(three.map(str, name="b")).map(str, name="both")
    assert task_counts(flow) == {"one": 1, "a": 1, "three": 3, "keyed": 3, "end": 2, "b": 3, "both": 3}


def test_every_operator_comes_after_all_it_reads():
    flow = Topology("flow")
    late = flow.source(sources.items([1]), name="s")
    early = late.map(str, name="x").map(str, name="y")
    late.union(early).map(str, name="z")
    order = upstream_first(flow)
    assert sorted(order) == ["s", "x", "y", "z"]
    assert all(order.index(edge.src) < order.index(edge.dst) for edge in flow.edges)
