"""Hosts, hops and nearness on the virtual clock, changing rates, and the papers' placements, mostly by hand."""

from __future__ import annotations

import pytest

from tailrace.placement.model import parse_nodes
from tailrace.placement.registry import by_name
from tailrace.simulate.distributions import Fixed, Plus
from tailrace.simulate.engine import run
from tailrace.simulate.errors import ModelError
from tailrace.simulate.model import Model, NodeModel, Phase, Policies, SourceModel, StageModel
from tailrace.simulate.scenarios.ablation import MECHANISMS, arms
from tailrace.simulate.scenarios.placed import TABLE_1, Hops, model_of
from tailrace.simulate.scenarios.stromax import drawing, simulated
from tailrace.simulate.scenarios.turbostream import sol, throughput_test


def node(host):
    return NodeModel(delay_us=1000.0, near_us=100.0, own_us=10.0, host=host)


def latency_ms(nodes, policies=None, tasks=1, places=(0,)):
    bolt = StageModel("bolt", tasks, Fixed(0.0), nodes=tuple(places))
    model = Model(nodes, SourceModel(1, 10.0, "periodic", nodes=(0,)), (bolt,))
    return run(model, policies or Policies(), seconds=20.0).mean_ms


def test_a_hop_costs_by_how_far_it_goes():
    nodes = (node("a"), node("a"), node("b"))
    assert latency_ms(nodes, places=(0,)) == pytest.approx(0.01)
    assert latency_ms(nodes, places=(1,)) == pytest.approx(0.1)
    assert latency_ms(nodes, places=(2,)) == pytest.approx(1.0)
    assert latency_ms((NodeModel(delay_us=1000.0),) * 2, places=(1,)) == pytest.approx(1.0)


def test_a_shuffle_that_keeps_near_keeps_as_near_as_a_task_may_take():
    """Two tasks, one of them here: it may take 1.25 even shares, so five tuples in eight stay."""
    nodes = (node("a"), node("b"))
    even = latency_ms(nodes, tasks=2, places=(0, 1))
    near = latency_ms(nodes, Policies(locality="node"), tasks=2, places=(0, 1))
    assert even == pytest.approx((0.01 + 1.0) / 2, rel=0.05)
    assert near == pytest.approx(0.625 * 0.01 + 0.375 * 1.0, rel=0.05)


def test_an_unknown_locality_is_refused():
    with pytest.raises(ModelError, match="locality"):
        Policies(locality="host")


def test_a_rate_changes_with_its_phases():
    source = SourceModel(1, 100.0, "periodic", phases=(Phase(1.0, 2.0, 3.0),))
    found = run(Model((NodeModel(),), source, (StageModel("bolt", 1, Fixed(0.0)),)), Policies(), seconds=3.0)
    assert found.emitted == pytest.approx(100 + 300 + 100, abs=3)


def test_what_comes_on_top_comes_every_time():
    assert Plus(Fixed(3.0), 2.0).draw(None) == 5.0


# -- the papers' placements ------------------------------------------------------------------------------------------


def test_hops_follow_the_placement():
    """Two tasks a worker apart on one host: every tuple takes the near way or stays."""
    hosts = parse_nodes("1x2")
    drawn = throughput_test(rate=100.0, tasks=2)
    model = model_of(drawn, hosts, by_name("round_robin").place(drawn.graph, hosts), Hops(0.0, 1000.0, 9000.0))
    assert {each.host for each in model.nodes} == {"n0"}
    assert run(model, Policies(), seconds=2.0).mean_ms == pytest.approx(0.5 + 0.02, rel=0.1)


def test_the_ring_saves_the_share_of_traffic_that_stays_on_its_node():
    drawn, hosts = sol(rate=500.0), parse_nodes("2x4")
    assignment = by_name("round_robin").place(drawn.graph, hosts)
    sockets, ring = (
        run(model_of(drawn, hosts, assignment, hops), Policies(), seconds=1.0).mean_ms
        for hops in (TABLE_1, Hops(TABLE_1.own_us, 0.0, TABLE_1.far_us))
    )
    assert ring / sockets == pytest.approx(1 - 0.3668, abs=0.05)  # the paper's figure 9b


def test_stromax_gains_with_a_shuffle_that_keeps_near_and_hardly_with_a_plain_one():
    nodes, lp = parse_nodes("40x1x10"), drawing("LP")
    placed = {name: by_name(name).place(lp.graph, nodes) for name in ("round_robin", "stromax")}
    base = simulated(lp, nodes, placed["round_robin"], "off", 800, 1).mean_ms
    assert simulated(lp, nodes, placed["stromax"], "off", 800, 1).mean_ms > 0.9 * base
    assert simulated(lp, nodes, placed["stromax"], "node", 800, 1).mean_ms < 0.7 * base


@pytest.mark.parametrize("name", ["WC", "TT", "TWTT", "LP", "TSSA", "SC"])
def test_every_topology_runs_at_a_rate_its_tasks_can_carry(name):
    drawn = drawing(name)
    assert drawn.busiest() <= 0.8 + 1e-9
    assert {stream.src for stream in drawn.streams} <= {operator.id for operator in drawn.operators}


def test_an_ablation_has_each_alone_all_and_all_but_one():
    found = arms()
    assert len(found) == 2 + 2 * len(MECHANISMS)
    assert found["all"].routing == "shortest_delay"
    assert found["all but balancing"].routing == "even"
    assert found["all but balancing"].inbox == "shared"
