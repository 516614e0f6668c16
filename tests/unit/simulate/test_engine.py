"""The simulator: right against theory, conserves work, is the same every time, and runs the runtime's own policies."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import examples

from tailrace import simulate
from tailrace.acking.adaptive_timeout import TimeoutSettings
from tailrace.simulate.distributions import Chance, Exponential, Fixed, Uniform, UniformWhole, Zipf
from tailrace.simulate.engine import Engine, run
from tailrace.simulate.errors import ModelError
from tailrace.simulate.model import Model, NodeModel, Phase, Policies, SourceModel, StageModel, Stalls
from tailrace.simulate.pace import NodeSpeed
from tailrace.simulate.scenarios.checks import queue
from tailrace.simulate.scenarios.du_gupta import heterogeneous, micro, stalling_nodes
from tailrace.simulate.scenarios.topologies import chain, even_nodes
from tailrace.simulate.theory import erlang_c, mean_wait_s

SHARED = Policies(inbox="shared")


def error_of(servers, use, tuples, runs):
    """How far the mean wait is from Erlang-C's, and the standard error of that from several runs."""
    model = queue(servers, use)
    exact_ms = 1000 * mean_wait_s(servers, model.source.rate_per_s, 1000.0)
    waits = [
        run(model, SHARED, seconds=tuples / model.source.rate_per_s, seed=seed).stages["servers"].mean_wait_ms
        for seed in range(runs)
    ]
    mean = sum(waits) / runs
    spread = (sum((wait - mean) ** 2 for wait in waits) / (runs - 1) / runs) ** 0.5
    return mean / exact_ms - 1, spread / exact_ms


def test_erlang_c_by_hand():
    assert erlang_c(1, 0.5) == pytest.approx(0.5)
    assert erlang_c(2, 1.0) == pytest.approx(1 / 3)
    assert mean_wait_s(1, 800, 1000) == pytest.approx(0.004)


@pytest.mark.parametrize(("servers", "use"), [(1, 0.4), (2, 0.6), (4, 0.7)])
def test_mean_waits_are_those_of_erlang_c(servers, use):
    """Runs are short, so three standard errors are allowed for; test_erlang.py asks for 2 %, from 1 to 20 servers."""
    error, spread = error_of(servers, use, 20_000, runs=5)
    assert abs(error) <= max(0.02, 3 * spread)
    assert spread < 0.05


def test_one_queue_beats_several_and_fixed_service_beats_exponential():
    means = [
        run(model, policies, seconds=2).mean_ms
        for model in (micro(Fixed(2222.0)), micro(Exponential(2222.0)))
        for policies in (SHARED, Policies())
    ]
    assert means[0] < means[1] < means[3]
    assert means[0] < means[2] < means[3]


# -- conservation and determinism ------------------------------------------------------------------------------------

ARMS = [
    Policies(),
    Policies(inbox="shared"),
    Policies(routing="latency", haste=20.0),
    Policies(routing="load_aware"),
    Policies(routing="load_reports", report_s=0.05),
    Policies(routing="shortest_delay", haste=10.0),
    Policies(replay="adaptive", timeout=TimeoutSettings(samples_min=50, period_s=0.2)),
    Policies(replay="blind", blind_share=0.3),
    Policies(sending="lbf", keyed="partial_key"),
    Policies(auto=True, haste=20.0),
]


def wide(link=None):
    """Everything at once: fan-out, a filter, keys, two branches, a limited uplink, stalls and a slow phase."""
    nodes = (
        NodeModel(delay_us=50, link_bytes_per_s=link),
        NodeModel(speed=0.5, stalls=Stalls(Exponential(300), Uniform(5, 30))),
        NodeModel(phases=(Phase(0.3, 0.6, 0.3),)),
    )
    stages = (
        StageModel("split", 4, Exponential(300), fan_out=UniformWhole(0, 4), bytes=Fixed(50), keys=Zipf(100)),
        StageModel("count", 3, Fixed(50), ("split",), "fields"),
        StageModel("filter", 3, Exponential(100), ("split",), fan_out=Chance(0.5)),
        StageModel("sink", 2, Fixed(20), ("filter", "count"), "by_root"),
    )
    return Model(nodes, SourceModel(2, 300), stages)


@pytest.mark.parametrize("policies", ARMS, ids=lambda each: f"{each.routing}-{each.inbox}-{each.replay}-{each.sending}")
def test_every_root_is_completed_once_and_the_run_is_the_same_again(policies):
    runs = [run(wide(link=60_000.0), policies, seconds=1.0, seed=4) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0].emitted == runs[0].completed > 400
    assert len(runs[0].latencies_ns) == runs[0].completed
    assert runs[0] != run(wide(link=60_000.0), policies, seconds=1.0, seed=5)


def test_work_is_conserved():
    """Without fan-out every stage does every tuple; with replays each stage does those too."""
    model = chain(even_nodes(), ("a", "b", "c"), 200.0, Exponential(500.0))
    found = run(model, Policies(), seconds=2)
    assert {stage.done for stage in found.stages.values()} == {found.emitted}
    again = run(model, Policies(replay="blind", blind_share=0.5), seconds=2)
    assert {stage.done for stage in again.stages.values()} == {again.emitted + again.replays}
    assert again.replays > 0.4 * again.emitted


def test_use_is_arrivals_times_service_over_speed():
    model = Model((NodeModel(speed=0.5),), SourceModel(1, 200, "periodic"), (StageModel("s", 2, Fixed(1000.0)),))
    found = run(model, Policies(), seconds=10)
    assert found.stages["s"].use == pytest.approx(0.2, rel=0.01)
    assert found.ms(0.5) == pytest.approx(2.0)


def test_a_limited_uplink_sets_the_pace():
    """10,000 tuples/s of 100 B over 1 MB/s: full use; a single tuple takes 100 us and the delay."""
    nodes = (NodeModel(link_bytes_per_s=1e6, delay_us=300), NodeModel())
    stages = (StageModel("s", 1, Fixed(1.0), nodes=(1,)),)
    model = Model(nodes, SourceModel(1, 10, "periodic", nodes=(0,)), stages)
    assert run(model, Policies(), seconds=1).ms(0.5) == pytest.approx(0.401)
    full = replace(model, source=replace(model.source, rate_per_s=20_000))
    assert run(full, Policies(), seconds=1).ms(1.0) == pytest.approx(1000, rel=0.02)


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 10_000_000), st.integers(1, 5_000_000)), min_size=1, max_size=30))
def test_stalls_only_ever_delay_and_not_for_longer_than_they_last(pieces):
    pace = NodeSpeed(NodeModel(stalls=Stalls(Uniform(1, 5), Uniform(0.5, 2))), "seed")
    now_ns = 0
    for wait_ns, work_ns in pieces:
        now_ns += wait_ns
        end_ns = pace.done_ns(now_ns, work_ns)
        stalled = sum(
            max(0, min(end, end_ns) - max(begin, now_ns))
            for begin, end in zip(pace._begins_ns, pace._ends_ns, strict=True)
        )
        assert end_ns == now_ns + work_ns + stalled


def test_models_that_do_not_fit_are_refused():
    with pytest.raises(ModelError, match="drawn before it"):
        Model((NodeModel(),), SourceModel(1, 1), (StageModel("a", 1, Fixed(1), ("b",)),))
    with pytest.raises(ModelError, match="routing must be one of"):
        Policies(routing="psychic")


# -- policies, as they were meant to work ----------------------------------------------------------------------------


def p99(model, policies, **options):
    return run(model, policies, **{"seconds": 12, "warm_s": 5, **options}).ms(0.99)


@pytest.mark.parametrize("case", ["b", "c"])
def test_shortest_delay_relieves_slow_nodes_and_its_weights_settle(case):
    model = heterogeneous(case, Exponential(2000.0))
    engine = Engine(model, Policies(routing="shortest_delay", haste=2.0), 1)
    result = engine.run(16, 6)
    assert result.ms(0.99) < 0.39 * p99(model, Policies(), seconds=16, warm_s=6)
    late = [weights for second, weights in result.shares if second > 6]
    slow = [task for task, node in enumerate(model.nodes) if node.speed < 1]
    for weights in late:
        fast = [weights[task] for task in range(5) if task not in slow]
        assert max(weights[task] for task in slow) < 0.75 * min(fast)
    assert all(max(each) - min(each) < 0.08 for each in zip(*late, strict=True))


def test_a_node_that_recovers_gets_its_share_back():
    slow = NodeModel(delay_us=100, phases=(Phase(0, 6, 0.25),))
    model = replace(heterogeneous("c", Exponential(2000.0)), nodes=(slow, *even_nodes(4)))
    result = run(model, Policies(routing="shortest_delay", haste=2.0), seconds=16)
    at = dict(result.shares)
    assert at[5.5][0] < 0.14
    assert at[16.0][0] == pytest.approx(0.2, abs=0.02)


def test_the_budget_holds_through_a_tenfold_step_of_service_times():
    step = (Phase(4, 10, 0.1),)
    model = chain(stalling_nodes(step=step), ("a", "b", "c"), 60.0, Exponential(1000.0))
    policies = Policies(replay="adaptive", timeout=TimeoutSettings(samples_min=100))
    result = run(model, policies, seconds=10)
    assert 0 < result.extra_load <= 0.03
    assert result.completed == result.emitted


def test_adaptive_replay_shortens_the_tail_that_stalls_make():
    model = chain(stalling_nodes(gap_ms=3000), ("a", "b", "c"), 240.0, Exponential(1000.0))
    assert p99(model, Policies(replay="adaptive"), seconds=16, warm_s=8) < 0.82 * p99(
        model, Policies(), seconds=16, warm_s=8
    )


@pytest.mark.parametrize(
    ("model", "technique", "best"),
    [
        (heterogeneous("b", Exponential(2000.0)), "balancing", Policies(routing="shortest_delay")),
        (replace(micro(Exponential(1e6 / 450)), source=SourceModel(5, 1400, "periodic")), "shared_queue", SHARED),
        (chain(even_nodes(), ("a", "b", "c"), 200.0, Exponential(1000.0)), "balancing+timeout", Policies()),
    ],
)
def test_auto_finds_the_technique_and_is_as_good_as_it(model, technique, best):
    found = run(model, Policies(auto=True, haste=2.0), seconds=11, warm_s=6)
    assert [text.partition(":")[0] for _, text in found.switches] == [technique]
    assert found.ms(0.99) < 1.15 * p99(model, best, seconds=11, warm_s=6)


# -- the same code as the runtime ------------------------------------------------------------------------------------


def test_policies_come_from_their_own_rooms():
    """The simulator may not define a router of its own but the random one, nor a gate, discipline or timeout."""
    methods = {"choose": {"RandomShuffle", "Edge"}, "decide": set(), "claim": set(), "adjust": {"Edge"}, "take": set()}
    for file in Path(simulate.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                own = {part.name for part in node.body if isinstance(part, ast.FunctionDef)} & set(methods)
                assert all(node.name in methods[name] for name in own), (file.name, node.name, own)
