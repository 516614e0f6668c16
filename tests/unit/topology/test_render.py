"""The two pictures of a topology."""

from __future__ import annotations

import pytest

from tailrace.connect import sinks, sources
from tailrace.topology.graph import Topology
from tailrace.topology.groupings import Grouping
from tailrace.topology.operators import EdgeSpec


@pytest.fixture
def flow():
    flow = Topology("wordcount")
    words = flow.source(sources.lines("wiki.txt"), tasks=2).flat_map(str.split, tasks=4, on_error="dead_letter")
    upper, lower, rest = words.branch(str.isupper, str.islower)
    upper.union(lower.shuffle()).key_by(len).count().sink(sinks.console())
    rest.to_global().sink(sinks.discard(), name='say "x"')
    words.dead_letters().sink(sinks.console())
    return flow


def test_tree(flow):
    assert str(flow).splitlines() == [
        "wordcount",
        "└─ lines (source, 2 tasks)",
        "   └─ split (flat_map, 4 tasks, on error dead_letter) <- shuffle",
        "      ├─ branch (branch, 4 tasks) <- auto",
        "      │  ├─ [0] count (count, 4 tasks) <- fields by len",
        "      │  │  └─ console (sink, 4 tasks) <- auto",
        "      │  ├─ [1] count (see above) <- fields by len",
        '      │  └─ [rest] say "x" (sink, 1 task) <- global',
        "      └─ [dead] console-2 (sink, 4 tasks) <- auto",
    ]


def test_mermaid(flow):
    assert flow.mermaid().splitlines() == [
        "flowchart LR",
        '    n0(["lines<br/>source, 2 tasks"])',
        '    n1["split<br/>flat_map, 4 tasks, on error dead_letter"]',
        '    n2["branch<br/>branch, 4 tasks"]',
        '    n3["count<br/>count, 4 tasks"]',
        '    n4[("console<br/>sink, 4 tasks")]',
        '    n5[("say #34;x#34;<br/>sink, 1 task")]',
        '    n6[("console-2<br/>sink, 4 tasks")]',
        '    n0 -->|"shuffle"| n1',
        '    n1 -->|"auto"| n2',
        '    n2 -->|"0: fields by len"| n3',
        '    n2 -->|"1: fields by len"| n3',
        '    n3 -->|"auto"| n4',
        '    n2 -->|"rest: global"| n5',
        '    n1 -.->|"dead: auto"| n6',
    ]


def test_an_empty_topology_is_only_its_name():
    assert str(Topology("nothing")) == "nothing"


def test_several_sources_and_a_cycle_apart_are_all_drawn():
    flow = Topology("odd")
    flow.source(sources.items([1]), name="first").sink(sinks.discard(), name="end")
    flow.source(sources.items([1]), name="second").map(str, name="a").map(str, name="b")
    flow.edges[1:] = [EdgeSpec("a", "out", "b", Grouping()), EdgeSpec("b", "out", "a", Grouping())]
    assert str(flow).splitlines() == [
        "odd",
        "├─ first (source, 1 task)",
        "│  └─ end (sink, 1 task) <- auto",
        "├─ second (source, 1 task)",
        "└─ a (map, ? tasks)",
        "   └─ b (map, ? tasks) <- auto",
        "      └─ a (see above) <- auto",
    ]


def test_a_long_chain_is_no_deep_recursion():
    flow = Topology("long")
    stream = flow.source(sources.items([1]))
    for _ in range(1500):
        stream = stream.map(str, name=f"m{len(flow.operators)}")
    assert len(str(flow).splitlines()) == 1502
