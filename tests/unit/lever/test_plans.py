"""Properties every plan must have, and the behaviour that tells them apart."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import examples

from tailrace.errors import ConfigError
from tailrace.lever.observe import BatchRun, NodeRun
from tailrace.lever.plans import PLANS, DampedPlan, ExecutorNode, LeverPlan, Memory, ProportionalPlan, plan_of
from tailrace.lever.simulate import SimulatedBatch, batches_to_settle, simulate

ALL = [*PLANS.values(), lambda: LeverPlan(reassignment=False), lambda: LeverPlan(capacity=False, reassignment=False)]
IDS = [*PLANS, "lever-ips-ilc", "lever-ips"]

positive = st.floats(min_value=1.0, max_value=1e5, allow_nan=False)
runs = st.lists(
    st.lists(st.tuples(positive, positive), min_size=1, max_size=12),
    min_size=1,
    max_size=5,
)


def learned(plan, history, *, load_scale=1.0, time_scale=1.0):
    memory = Memory()
    for index, pairs in enumerate(history):
        nodes = (NodeRun(str(i), load * load_scale, time * time_scale) for i, (load, time) in enumerate(pairs))
        memory = plan.learn(memory, BatchRun(index, tuple(nodes)))
    return memory


@pytest.mark.parametrize("make", ALL, ids=IDS)
@examples(60)
@given(history=runs, cores=st.lists(st.integers(1, 8), min_size=1, max_size=14), total=st.floats(1.0, 1e9))
def test_loads_sum_to_the_input_and_none_is_negative(make, history, cores, total):
    plan = make()
    nodes = [ExecutorNode(str(i), count) for i, count in enumerate(cores)]
    memory = learned(plan, history).without_all_but(node.executor for node in nodes)
    loads = plan.assign(memory, nodes, total).loads
    assert set(loads) == {node.executor for node in nodes}
    assert min(loads.values()) >= 0
    assert sum(loads.values()) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("make", ALL, ids=IDS)
@examples(60)
@given(history=runs, copies=st.integers(1, 3))
def test_equal_executors_get_equal_shares(make, history, copies):
    plan = make()
    twin = [[pair for pair in pairs for _ in range(copies)] for pairs in history]
    width = min(len(pairs) for pairs in twin)
    twin = [pairs[:width] for pairs in twin]
    loads = plan.assign(learned(plan, twin), [ExecutorNode(str(i)) for i in range(width)], 1000.0).loads
    for first in range(0, width - copies + 1, copies):
        for other in range(first, first + copies):
            assert loads[str(other)] == pytest.approx(loads[str(first)], rel=1e-9)


@pytest.mark.parametrize("make", ALL, ids=IDS)
@examples(60)
@given(history=runs, power=st.integers(1, 6), time_power=st.integers(0, 6))
def test_shares_do_not_depend_on_the_scale_of_rows_or_time(make, history, power, time_power):
    # Powers of two scale floats exactly, so a tie stays a tie.
    plan = make()
    nodes = [ExecutorNode(str(i)) for i in range(max(len(pairs) for pairs in history))]
    scale, time_scale = 2.0**power, 2.0**time_power
    plain = plan.assign(learned(plan, history), nodes, 4096.0).loads
    scaled = plan.assign(learned(plan, history, load_scale=scale, time_scale=time_scale), nodes, 4096.0 * scale).loads
    for node in nodes:
        assert scaled[node.executor] / scale == pytest.approx(plain[node.executor], rel=1e-6)


def slow_one(speed, batches=12, slow="3"):
    speeds = {str(i): 1.0 for i in range(4)} | {slow: speed}
    return [SimulatedBatch(4000.0, speeds) for _ in range(batches)]


@pytest.mark.parametrize("make", [ProportionalPlan, DampedPlan], ids=["proportional", "damped"])
def test_a_slow_executor_is_levelled_within_three_batches(make):
    assert batches_to_settle(simulate(make(), slow_one(0.25), overhead_ms=100.0)) <= 3


@pytest.mark.parametrize("make", [ProportionalPlan, DampedPlan], ids=["proportional", "damped"])
def test_the_slow_executor_moves_and_shares_follow_within_three_batches(make):
    outcomes = simulate(make(), slow_one(0.25) + slow_one(0.25, slow="0"), overhead_ms=100.0)
    assert batches_to_settle(outcomes[12:]) <= 3


def test_the_paper_plan_relieves_the_straggler():
    outcomes = simulate(LeverPlan(), slow_one(0.25), overhead_ms=100.0)
    assert outcomes[0].makespan_ms > 4000
    assert min(outcome.makespan_ms for outcome in outcomes) < 2000


@pytest.mark.parametrize("make", ALL, ids=IDS)
def test_every_part_of_the_paper_plan_gains_over_even_shares(make):
    speeds = {str(i): (0.46 if i % 4 == 0 else 1.0) for i in range(16)}
    batches = [SimulatedBatch(16000.0, speeds)] * 40

    def mean_ms(plan):
        outcomes = simulate(plan, batches, overhead_ms=100.0, noise=0.05, random=Random(7))
        return sum(outcome.makespan_ms for outcome in outcomes) / len(outcomes)

    bar = 1.01 if make is PLANS["even"] else 0.8
    assert mean_ms(make()) < bar * mean_ms(plan_of("even"))


def test_damped_shares_swing_less_under_noise_than_proportional_ones():
    def swing(plan):
        outcomes = simulate(plan, slow_one(0.25, batches=80), noise=0.1, random=Random(3))[5:]
        shares = [outcome.loads["0"] for outcome in outcomes]
        return sum(abs(a - b) for a, b in itertools.pairwise(shares))

    assert swing(DampedPlan()) < 0.7 * swing(ProportionalPlan())


def test_damped_shares_follow_a_steady_change():
    batches = [SimulatedBatch(4000.0, {"0": 1.0, "1": 1.0, "2": 1.0, "3": 0.9**k}) for k in range(14)]
    outcomes = simulate(DampedPlan(), batches, overhead_ms=100.0)
    assert max(outcome.makespan_ms / outcome.ideal_ms for outcome in outcomes) < 1.15


def test_no_helpers_means_no_change():
    outcomes = simulate(LeverPlan(helpers=0), slow_one(0.25))
    assert all(load == 1000.0 for outcome in outcomes for load in outcome.loads.values())


def test_an_executor_that_joins_gets_a_typical_share():
    plan = DampedPlan()
    memory = learned(plan, [[(100.0, 100.0)] * 3])
    loads = plan.assign(memory, [ExecutorNode(str(i)) for i in range(4)], 400.0).loads
    assert loads["3"] == pytest.approx(100.0)


def test_cores_count_before_anything_is_known():
    loads = plan_of("damped").assign(Memory(), [ExecutorNode("a", 3), ExecutorNode("b", 1)], 8.0).loads
    assert loads == {"a": 6.0, "b": 2.0}


def test_an_unknown_plan_names_the_nearest():
    with pytest.raises(ConfigError, match="proportional"):
        plan_of("proportionl")
