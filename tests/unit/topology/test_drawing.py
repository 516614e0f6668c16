"""Drawing: which specs and edges the methods of streams leave behind."""

from __future__ import annotations

import functools
import operator

import cloudpickle
import pytest

from tailrace.connect import sinks, sources
from tailrace.topology import errors
from tailrace.topology.graph import KeyedStream, Stream, Topology
from tailrace.topology.groupings import Grouping, direct
from tailrace.topology.operators import Aggregation, KeyedOperator, Operator


class Tag(Operator):
    def process(self, value):
        return [value]


class Remember(KeyedOperator):
    def process(self, key, value, state):
        state.set(value)


@pytest.fixture
def flow():
    return Topology("flow")


@pytest.fixture
def numbers(flow):
    return flow.source(sources.items([1, 2, 3]))


def edges(flow):
    return [(edge.src, edge.port, edge.dst, edge.grouping.kind) for edge in flow.edges]


def test_word_count_as_plain_data(flow):
    lines = flow.source(sources.lines("wiki.txt"), tasks=2)
    words = lines.flat_map(str.split, tasks=4)
    words.key_by(len).count(tasks=3).sink(sinks.console())
    assert [(s.name, s.kind, s.verb, s.tasks) for s in flow.operators.values()] == [
        ("lines", "source", "source", 2),
        ("split", "transform", "flat_map", 4),
        ("count", "transform", "count", 3),
        ("console", "sink", "sink", None),
    ]
    assert edges(flow) == [
        ("lines", "out", "split", "auto"),
        ("split", "out", "count", "fields"),
        ("count", "out", "console", "auto"),
    ]
    assert flow.operators["count"].key is len
    assert flow.edges[1].grouping == Grouping("fields", len)


def test_options_reach_the_spec(numbers, flow):
    numbers.map(str, name="text", on_error="skip", blocking=True, concurrency=3, deterministic=False)
    spec = flow.operators["text"]
    assert (spec.on_error, spec.blocking, spec.concurrency, spec.deterministic) == ("skip", True, 3, False)


@pytest.mark.parametrize(
    ("method", "kind"),
    [("shuffle", "shuffle"), ("broadcast", "all"), ("to_global", "global"), ("local_or_shuffle", "local")],
)
def test_groupings_hold_for_the_next_operator_only(numbers, flow, method, kind):
    getattr(numbers, method)().map(str).filter(str.isdigit)
    assert edges(flow) == [("items", "out", "str", kind), ("str", "out", "isdigit", "auto")]


def test_direct_and_custom_groupings(numbers, flow):
    def spread(value, n_tasks):
        return value % n_tasks

    numbers.map(lambda v: direct(0, v), name="address").direct().map(str)
    numbers.group_by(spread).map(abs)
    assert edges(flow)[1:] == [("address", "out", "str", "direct"), ("items", "out", "abs", "custom")]
    assert flow.edges[-1].grouping.fn is spread


def test_an_operator_behind_a_global_edge_has_one_task(flow):
    flow.source(sources.items([1]), tasks=4).to_global().map(str)
    assert flow.operators["str"].tasks == 1


def test_union_reads_every_stream_with_its_own_grouping(flow):
    left = flow.source(sources.items([1]), name="left")
    right = flow.source(sources.items([2]), name="right")
    left.union(right.broadcast()).map(str)
    assert edges(flow) == [("left", "out", "str", "auto"), ("right", "out", "str", "all")]


def test_union_refuses_other_topologies_and_the_same_stream(numbers):
    other = Topology("other").source(sources.items([1]))
    with pytest.raises(errors.UnionError, match="'flow' and of 'other'"):
        numbers.union(other)
    with pytest.raises(errors.UnionError, match="'items' twice"):
        numbers.union(numbers.shuffle())


def test_branch_gives_a_stream_per_predicate_and_the_rest(numbers, flow):
    small, large, rest = numbers.branch(lambda v: v < 2, lambda v: v > 2)
    small.map(str, name="small")
    large.map(str, name="large")
    rest.map(str, name="rest")
    assert [(edge.port, edge.dst) for edge in flow.edges[1:]] == [("0", "small"), ("1", "large"), ("rest", "rest")]
    assert flow.operators["branch"].ports == ("0", "1", "rest")


def test_dead_letters_are_a_port_of_operators_with_that_policy(numbers, flow):
    ratio = numbers.map(lambda v: 1 / v, name="ratio", on_error="dead_letter")
    written = ratio.sink(sinks.discard(), on_error="dead_letter")
    ratio.dead_letters().union(written.dead_letters()).sink(sinks.console())
    assert edges(flow)[2:] == [("ratio", "dead", "console", "auto"), ("discard", "dead", "console", "auto")]


def test_dead_letters_of_another_policy_are_refused(numbers):
    with pytest.raises(errors.ErrorPolicyError, match="'str' has on_error='fail'"):
        numbers.map(str).dead_letters()


def test_keyed_verbs(numbers, flow):
    keyed = numbers.key_by(operator.neg, ordered=True)
    assert isinstance(keyed, KeyedStream)
    assert isinstance(keyed.reduce(operator.add), Stream)
    keyed.aggregate(int, operator.add, str, name="fold")
    keyed.process(Remember)
    keyed.process(lambda key, value, state: None, name="fn")
    specs = list(flow.operators.values())[1:]
    assert [(s.name, s.verb) for s in specs] == [
        ("add", "reduce"),
        ("fold", "aggregate"),
        ("Remember", "keyed_process"),
        ("fn", "keyed_process"),
    ]
    assert all(s.ordered and s.key is operator.neg for s in specs)
    assert specs[1].fn == Aggregation(int, operator.add, str)
    assert {edge.grouping.kind for edge in flow.edges} == {"fields"}


def test_plain_verbs_on_a_keyed_stream_are_grouped_but_have_no_state(numbers, flow):
    numbers.key_by(abs).map(str)
    numbers.key_by(abs).process(Tag())
    assert [(s.verb, s.key) for s in list(flow.operators.values())[1:]] == [("map", None), ("process", None)]
    assert edges(flow) == [("items", "out", "str", "fields"), ("items", "out", "Tag", "fields")]


def test_operators_as_partials_methods_async_and_objects(numbers, flow):
    class Scale:
        def __call__(self, value):
            return value * 2

        def method(self, value):
            return value

    async def lookup(value):
        return value

    numbers.map(functools.partial(pow, 2)).map(Scale()).map(Scale().method).map(lookup).map(lambda v: v).map(int)
    assert list(flow.operators)[1:] == ["pow", "Scale", "method", "lookup", "map", "int"]


def test_a_topology_survives_shipping(numbers, flow):
    offset = 5
    numbers.map(lambda v: v + offset, name="shifted").sink(sinks.console())
    copy = cloudpickle.loads(cloudpickle.dumps(flow))
    assert str(copy) == str(flow)
    assert edges(copy) == edges(flow)
    assert copy.operators["shifted"].fn(1) == 6


def test_one_failed_step_leaves_the_topology_as_it_was(numbers, flow):
    before = str(flow)
    with pytest.raises(errors.TaskCountError):
        numbers.map(str, tasks=0)
    assert str(flow) == before
