"""Plans: what is chained, how stages and edges are numbered, which stages are guarded."""

from __future__ import annotations

import pytest

import tailrace as tr
from tailrace.program.channels import channel_bases
from tailrace.topology.plan import make_plan


async def later(value):
    return value


def plan_of(draw, *, chaining=True):
    flow = tr.Topology("plan")
    draw(flow.source(tr.sources.items([1], partitions=2), tasks=2))
    return make_plan(flow, chaining=chaining)


def stages(plan):
    return [[spec.name for spec in stage.operators] for stage in plan.stages]


def names(plan):
    return ["+".join(each) for each in stages(plan)]


def test_operators_of_equal_tasks_are_chained():
    plan = plan_of(lambda s: s.map(str, name="m").filter(len, name="f").sink(tr.sinks.discard(), name="k"))
    assert names(plan) == ["items+m+f+k"]
    assert [(link.src, link.dst) for link in plan.stages[0].links] == [("items", "m"), ("m", "f"), ("f", "k")]
    assert plan.edges == ()


def test_chaining_can_be_turned_off():
    plan = plan_of(lambda s: s.map(str, name="m").sink(tr.sinks.discard(), name="k"), chaining=False)
    assert names(plan) == ["items", "m", "k"]
    assert [(edge.src, edge.src_stage, edge.dst_stage) for edge in plan.edges] == [("items", 0, 1), ("m", 1, 2)]


CUTS = {
    "other task count": lambda s: s.map(str, name="m", tasks=3),
    "shuffle": lambda s: s.shuffle().map(str, name="m"),
    "broadcast": lambda s: s.broadcast().map(str, name="m"),
    "global": lambda s: s.to_global().map(str, name="m"),
    "direct": lambda s: s.direct().map(str, name="m"),
    "custom": lambda s: s.group_by(lambda v, n: 0).map(str, name="m"),
    "key": lambda s: s.key_by(str).reduce(max, name="m"),
    "blocking": lambda s: s.map(str, name="m", blocking=True),
    "async": lambda s: s.map(later, name="m"),
}


@pytest.mark.parametrize("why", CUTS)
def test_what_cuts_a_chain(why):
    plan = plan_of(lambda s: CUTS[why](s).shuffle().sink(tr.sinks.discard(), name="k"))
    assert names(plan)[0] == "items"
    assert plan.stages[1].head.name == "m"


def test_what_follows_an_awaited_operator_is_a_stage_of_its_own():
    plan = plan_of(lambda s: s.map(later, name="m").map(str, name="n").shuffle().sink(tr.sinks.discard()))
    assert [stage.is_async for stage in plan.stages][:3] == [False, True, False]


def test_local_or_shuffle_chains_where_it_can():
    assert names(plan_of(lambda s: s.local_or_shuffle().map(str, name="m").sink(tr.sinks.discard(), name="k"))) == [
        "items+m+k"
    ]


def test_an_operator_with_two_inputs_heads_a_stage():
    def draw(stream):
        left, right = stream.map(str, name="l"), stream.map(str, name="r")
        left.union(right).map(str, name="both").sink(tr.sinks.discard(), name="k")

    plan = plan_of(draw)
    assert sorted(stages(plan)[0]) == ["items", "l", "r"]
    assert stages(plan)[1] == ["both", "k"]
    assert {edge.src for edge in plan.inputs[1]} == {"l", "r"}
    assert plan.outputs[0] == plan.inputs[1]


def test_stages_come_upstream_first_and_channels_never_overlap():
    def draw(stream):
        first, rest = stream.branch(lambda v: v > 0, name="b")
        first.shuffle().map(str, tasks=3, name="m").shuffle().sink(tr.sinks.discard(), tasks=2, name="k")
        rest.shuffle().sink(tr.sinks.discard(), tasks=4, name="r")

    plan = plan_of(draw)
    assert all(edge.src_stage < edge.dst_stage for edge in plan.edges)
    assert [stage.id for stage in plan.stages] == list(range(len(plan.stages)))
    assert [edge.id for edge in plan.edges] == list(range(len(plan.edges)))
    channels = [
        base + sender * plan.stages[edge.dst_stage].tasks + receiver
        for edge, base in zip(plan.edges, channel_bases(plan), strict=True)
        for sender in range(plan.stages[edge.src_stage].tasks)
        for receiver in range(plan.stages[edge.dst_stage].tasks)
    ]
    assert channels == list(range(len(channels)))


GUARDED = {
    "sink": (lambda s: s.shuffle().sink(tr.sinks.discard(), name="x"), True),
    "keyed": (lambda s: s.key_by(str).count(name="x").shuffle().sink(tr.sinks.discard()), True),
    "process": (lambda s: s.shuffle().process(lambda v: [v], name="x").shuffle().sink(tr.sinks.discard()), True),
    "chained sink": (lambda s: s.shuffle().map(str, name="x").sink(tr.sinks.discard()), True),
    "map": (lambda s: s.shuffle().map(str, name="x").shuffle().sink(tr.sinks.discard()), False),
}


@pytest.mark.parametrize("case", GUARDED)
def test_state_and_results_are_guarded_and_nothing_else(case):
    draw, guarded = GUARDED[case]
    (stage,) = [each for each in plan_of(draw).stages if each.head.name == "x"]
    assert stage.guarded is guarded


def test_a_source_is_never_guarded():
    assert not plan_of(lambda s: s.sink(tr.sinks.discard())).stages[0].guarded
