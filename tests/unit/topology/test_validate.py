"""What can be wrong with a topology as a whole, drawn or made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tailrace.connect import sinks, sources
from tailrace.topology import errors
from tailrace.topology.graph import Topology
from tailrace.topology.groupings import Grouping, direct
from tailrace.topology.operators import EdgeSpec, OperatorSpec


@pytest.fixture
def flow():
    return Topology("flow")


@pytest.fixture
def numbers(flow):
    return flow.source(sources.items([1, 2, 3]))


def refused(flow, error, text):
    with pytest.raises(error, match=text) as caught:
        flow.validate()
    assert caught.value.hint
    assert caught.value.exit_code == 2


def regroup(flow, index, grouping):
    flow.edges[index] = replace(flow.edges[index], grouping=grouping)


def test_a_sound_topology_passes(flow, numbers):
    ratio = numbers.map(lambda v: 1 / v, on_error="dead_letter", name="ratio")
    good, rest = ratio.branch(lambda v: v > 1)
    good.key_by(int).count().sink(sinks.console())
    rest.map(lambda v: direct(0, v)).direct().sink(sinks.discard())
    numbers.group_by(lambda v, n: v % n).union(rest.broadcast()).map(str).sink(sinks.discard())
    ratio.dead_letters().sink(sinks.console())
    flow.validate()


def test_dead_letters_nobody_reads(flow, numbers):
    numbers.map(str, on_error="dead_letter").sink(sinks.discard())
    refused(flow, errors.DanglingStreamError, "dead letters are read by nobody")


def test_no_source(flow):
    refused(flow, errors.EmptyTopologyError, "needs at least one source")


def test_an_output_nobody_reads(flow, numbers):
    numbers.map(str)
    refused(flow, errors.DanglingStreamError, "output of operator 'str'")


def test_a_source_nobody_reads(flow, numbers):
    refused(flow, errors.DanglingStreamError, "output of operator 'items'")


def test_one_read_port_of_a_branch_is_enough(flow, numbers):
    numbers.branch(bool)[1].sink(sinks.discard())
    flow.validate()


def test_an_operator_that_reads_nothing(flow, numbers):
    numbers.sink(sinks.discard())
    flow.operators["lonely"] = OperatorSpec("lonely", "sink", "sink", sinks.discard())
    refused(flow, errors.DanglingStreamError, "'lonely' .* reads no stream")


def test_a_cycle_is_named_in_order(flow, numbers):
    a = numbers.map(str, name="a")
    b = a.map(str, name="b")
    b.map(str, name="c").sink(sinks.discard(), name="end")
    flow.edges.append(EdgeSpec("b", "out", "a", Grouping()))
    refused(flow, errors.CycleError, r"a -> b -> a|b -> a -> b")


def test_a_cycle_upstream_of_much_else_is_still_found(flow, numbers):
    a = numbers.map(str, name="a")
    tail = a
    for index in range(5):
        tail = tail.map(str, name=f"t{index}")
    tail.sink(sinks.discard())
    flow.edges.append(EdgeSpec("a", "out", "a", Grouping()))
    refused(flow, errors.CycleError, "found a -> a")


@pytest.mark.parametrize(
    ("edge", "text"),
    [
        (EdgeSpec("itens", "out", "discard", Grouping()), "'itens', which is no operator"),
        (EdgeSpec("items", "out", "nowhere", Grouping()), "'nowhere', which is no operator"),
        (EdgeSpec("items", "1", "discard", Grouping()), "port '1' of 'items'"),
        (EdgeSpec("items", "dead", "discard", Grouping()), "port 'dead' of 'items'"),
        (EdgeSpec("discard", "out", "discard", Grouping()), "port 'out' of 'discard'"),
        (EdgeSpec("items", "out", "items", Grouping()), "into the source 'items'"),
    ],
)
def test_edges_that_end_nowhere(flow, numbers, edge, text):
    numbers.sink(sinks.discard())
    flow.edges.append(edge)
    refused(flow, errors.DanglingStreamError, text)
    assert "items" in str(flow)
    assert "n0" in flow.mermaid()


def test_an_edge_that_is_there_twice(flow, numbers):
    numbers.sink(sinks.discard())
    flow.edges.append(replace(flow.edges[0], grouping=Grouping("all")))
    refused(flow, errors.UnionError, "two edges from port 'out' of 'items' to 'discard'")


def test_an_operator_filed_under_another_name(flow, numbers):
    numbers.sink(sinks.discard())
    flow.operators["items"] = replace(flow.operators["items"], name="other")
    refused(flow, errors.DuplicateNameError, "'other' is filed under the name 'items'")


def test_specs_made_by_hand_are_checked_too(flow, numbers):
    numbers.map(str).sink(sinks.discard())
    spec = flow.operators["str"]
    flow.operators["str"] = replace(spec, tasks=0)
    refused(flow, errors.TaskCountError, "found 0")
    flow.operators["str"] = replace(spec, verb="mapp")
    refused(flow, errors.OptionError, "unknown verb 'mapp'")


@pytest.mark.parametrize(
    ("grouping", "text"),
    [
        (Grouping("fields"), "function from a value to its key, found None"),
        (Grouping("custom"), "group_by in front of operator 'discard' needs a function"),
        (Grouping("shufle"), "'shufle', which is unknown"),
        (Grouping("all", len), "takes no function"),
        (Grouping("direct"), "what a source emits"),
    ],
)
def test_groupings_that_do_not_fit(flow, numbers, grouping, text):
    numbers.sink(sinks.discard())
    regroup(flow, 0, grouping)
    refused(flow, errors.GroupingError, text)


def test_a_custom_grouping_gets_value_and_number_of_tasks(flow, numbers):
    numbers.group_by(lambda value: 0).sink(sinks.discard())
    refused(flow, errors.NotCallableError, r"<lambda>\(value, n_tasks\)")


@pytest.mark.parametrize("grouping", [Grouping("shuffle"), Grouping("fields", abs)])
def test_keyed_state_needs_its_own_key_as_grouping(flow, numbers, grouping):
    numbers.key_by(int).count().sink(sinks.discard())
    regroup(flow, 0, grouping)
    refused(flow, errors.GroupingError, "'count' keeps state per key")


def test_dead_letters_carry_no_address(flow, numbers):
    ratio = numbers.map(str, on_error="dead_letter")
    ratio.sink(sinks.discard())
    ratio.dead_letters().direct().sink(sinks.discard())
    refused(flow, errors.GroupingError, "sends dead letters")
