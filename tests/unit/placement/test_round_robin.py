import pytest

from tailrace.placement import Node, OperatorEdge, OperatorProfile, UnknownPolicyError, by_name, expand, parse_nodes
from tailrace.placement.errors import CapacityError, NodeSpecError

CHAIN = expand("chain", [OperatorProfile(id="a", tasks=3), OperatorProfile(id="b", tasks=4)], [OperatorEdge("a", "b")])


def test_tasks_are_dealt_to_the_first_worker_of_every_node_then_to_the_second():
    placed = by_name("round_robin").place(CHAIN, parse_nodes("2x2"), None)
    assert [placed.place_of(v.id) for v in CHAIN.vertices] == [
        ("n0", 0),
        ("n1", 0),
        ("n0", 1),
        ("n1", 1),
        ("n0", 0),
        ("n1", 0),
        ("n0", 1),
    ]


def test_unequal_workers_and_full_nodes_are_passed_over():
    nodes = [Node(name="big", workers=2), Node(name="small", workers=1, slots=1)]
    placed = by_name("round_robin").place(CHAIN, nodes)
    assert placed.tasks_on("small") == ("a[1]",)
    assert placed.by_worker["big", 0] == ("a[0]", "b[0]", "b[2]")


def test_too_few_slots_is_a_named_error():
    with pytest.raises(CapacityError, match="7 slots, but the nodes have 6"):
        by_name("round_robin").place(CHAIN, parse_nodes("2x2x3"))


def test_an_unknown_policy_names_the_nearest():
    with pytest.raises(UnknownPolicyError, match="Did you mean 'round_robin'"):
        by_name("roundrobin")
    with pytest.raises(UnknownPolicyError, match="does not take"):
        by_name("round_robin", colour="red")


@pytest.mark.parametrize("text", ["8", "8x", "0x4", "2x0", "axb", "1x2x3x4"])
def test_node_specs_that_cannot_be_read_are_named_errors(text):
    with pytest.raises(NodeSpecError):
        parse_nodes(text)


def test_nodes_must_be_distinct_and_able_to_run_something():
    with pytest.raises(NodeSpecError, match="distinct"):
        by_name("round_robin").place(CHAIN, [Node(name="x"), Node(name="x")])
    with pytest.raises(NodeSpecError, match="workers >= 1"):
        Node(name="x", workers=0)
