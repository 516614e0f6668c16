"""Du & Gupta's three techniques in their own scenarios, and the choice among them: sharedqueue, balance, timeout, auto.

Rates and task counts are the paper's (WORKLOADS: micro 350/s in and 450/s service per queue; PageLoad and Processing at
660 in and 830 out); what it leaves open, stalls and interference, is chosen here and said in the case's name or code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..comparison import SimulationCase, SimulationReport, compare
from ..distributions import Exponential, Fixed, Uniform
from ..model import Model, NodeModel, Phase, Policies, SourceModel, StageModel, Stalls
from .topologies import US_PER_S, chain, even_nodes, pageload, processing

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..distributions import Distribution

TAILS = ("mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms")
_DELAY_US = 100.0
_THREE = ("bolt1", "bolt2", "bolt3")


def micro(service_us: Distribution, grouping: str = "shuffle") -> Model:
    """20 executors, 4 to a worker, 350/s in and 450/s out of each."""
    bolt = StageModel("bolt", 20, service_us, grouping=grouping, nodes=tuple(task // 4 for task in range(20)))
    return Model(even_nodes(), SourceModel(5, 350.0 * 20 / 5), (bolt,))


def sharedqueue(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """One queue per operator and node against one per task, at a queue use of about 0.8."""
    seconds = 5.0 if quick else 20.0
    arms = {"per_task": Policies(), "shared": Policies(inbox="shared")}
    slow, fast = Exponential(US_PER_S / 450), Exponential(US_PER_S / 830)
    cases = [
        SimulationCase("micro", micro(slow), seconds, 1.0),
        SimulationCase("micro, random shuffle", micro(slow, "random"), seconds, 1.0),
        SimulationCase("micro, fixed service", micro(Fixed(US_PER_S / 450)), seconds, 1.0),
        SimulationCase("pageload", pageload(even_nodes(), 530.0, fast, packed=True), seconds, 1.0),
        SimulationCase("processing", processing(even_nodes(), 530.0, fast, packed=True), seconds, 1.0),
    ]
    return compare(
        "sharedqueue", sharedqueue.__doc__ or "", cases, arms, TAILS,
        baselines=("per_task",), seeds=seeds, progress=progress,
    )  # fmt: skip


def heterogeneous(case: str, service_us: Distribution, load: float = 0.9) -> Model:
    """Scenario a, b or c; at an even split the slowest task's queue is used ``load``."""
    mean_us = 2000.0
    if case == "a":  # 14 tasks on 5 nodes: where two bolts share a node, each works at two thirds of the speed
        speeds, tasks = (2 / 3, 2 / 3, 2 / 3, 2 / 3, 1.0), 3
        places: tuple[tuple[int, ...], ...] = ((0, 1, 2), (3, 4, 0), (1, 2, 3))
    else:
        speeds, tasks, places = ((0.5, 0.5, 1, 1, 1) if case == "b" else (0.5, 1, 1, 1, 1)), 5, ()
    nodes = tuple(NodeModel(speed=speed, delay_us=_DELAY_US) for speed in speeds)
    rate = load * min(speeds) * US_PER_S / mean_us * tasks / 5
    return chain(nodes, _THREE, rate, service_us, tasks=tasks, places=places)


def uneven_nodes(slow: float = 0.5) -> tuple[NodeModel, ...]:
    """Four whole nodes and a smaller one."""
    return (NodeModel(speed=slow, delay_us=_DELAY_US), *even_nodes(4))


def recovering() -> Model:
    """Scenario c, but the slow node is whole again after half of a minute."""
    slow = NodeModel(delay_us=_DELAY_US, phases=(Phase(0, 30, 0.5),))
    return replace(heterogeneous("c", Exponential(2000.0)), nodes=(slow, *even_nodes(4)))


def balance(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """Nodes of unequal speed: even, the paper's latency balancing, the baselines of rivals, and shortest delay."""
    seconds, warm_s, haste = (20.0, 8.0, 10.0) if quick else (60.0, 20.0, 3.0)
    arms = {
        "even": Policies(),
        "latency": Policies(routing="latency", haste=haste),
        "load_reports": Policies(routing="load_reports"),
        "load_aware": Policies(routing="load_aware"),
        "shortest_delay": Policies(routing="shortest_delay"),
    }
    service = Exponential(2000.0)
    cases = [SimulationCase(case, heterogeneous(case, service), seconds, warm_s) for case in "abc"]
    # The bolts' service time is such that the small node's queues are used 0.9 at an even split of 600/s per source.
    cases += [
        SimulationCase("pageload", pageload(uneven_nodes(), 600.0, Exponential(750.0)), seconds, warm_s),
        SimulationCase("processing", processing(uneven_nodes(), 600.0, Exponential(750.0)), seconds, warm_s),
        SimulationCase("b, fixed service", heterogeneous("b", Fixed(2000.0)), seconds, warm_s),
        SimulationCase("equal nodes", chain(even_nodes(), _THREE, 400.0, service), seconds, warm_s),
        SimulationCase("node recovers at 30 s", recovering(), 60.0, 35.0),
    ]
    return compare(
        "balance", balance.__doc__ or "", cases, arms, TAILS,
        baselines=("even", "load_aware"), seeds=seeds, progress=progress,
    )  # fmt: skip


def stalling_nodes(gap_ms: float = 5000.0, step: tuple[Phase, ...] = ()) -> tuple[NodeModel, ...]:
    """Each node stands still for 20 to 100 ms every few seconds."""
    return (NodeModel(delay_us=_DELAY_US, stalls=Stalls(Exponential(gap_ms), Uniform(20.0, 100.0)), phases=step),) * 5


def timeout(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """Nodes that stall at random, at low load: no replay, adaptive replay, and blind replication."""
    seconds = 20.0 if quick else 40.0
    arms = {
        "off": Policies(),
        "adaptive": Policies(replay="adaptive"),
        **{f"blind {share:.0%}": Policies(replay="blind", blind_share=share) for share in (0.2, 0.5, 1.0)},
        "adaptive + shortest_delay": Policies(replay="adaptive", routing="shortest_delay"),
    }
    service = Exponential(1000.0)
    step = (Phase(seconds / 2, seconds, 0.1),)
    few = {name: arms[name] for name in ("off", "adaptive")}
    cases = [
        SimulationCase("exclamation", chain(stalling_nodes(), _THREE, 240.0, service), seconds, 8.0),
        SimulationCase("pageload", pageload(stalling_nodes(), 240.0, service), seconds, 8.0, few),
        SimulationCase("processing", processing(stalling_nodes(), 240.0, service), seconds, 8.0, few),
        SimulationCase(
            "exclamation, x10 step", chain(stalling_nodes(step=step), _THREE, 60.0, service), seconds, 8.0, few
        ),
        SimulationCase("exclamation, sink by root", _with_sink(), seconds, 8.0, few),
    ]
    return compare(
        "timeout", timeout.__doc__ or "", cases, arms, (*TAILS, "extra_load"),
        baselines=("off",), seeds=seeds, progress=progress,
    )  # fmt: skip


def _with_sink() -> Model:
    """Incarnations meet at the last stage, so a stall there has no way around it."""
    model = chain(stalling_nodes(), _THREE, 240.0, Exponential(1000.0))
    return replace(model, stages=(*model.stages[:-1], replace(model.stages[-1], grouping="by_root")))


def auto(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """The switch that chooses by itself, beside each technique alone, in the scenarios of all of them."""
    seconds, warm_s = (24.0, 12.0) if quick else (40.0, 15.0)
    arms = {
        "none": Policies(),
        "timeout": Policies(replay="adaptive"),
        "shared_queue": Policies(inbox="shared"),
        "balancing": Policies(routing="shortest_delay"),
        "balancing+timeout": Policies(routing="shortest_delay", replay="adaptive"),
        "auto": Policies(auto=True, haste=2.0),
    }
    fast, service = Exponential(US_PER_S / 830), Exponential(1000.0)
    cases = [
        SimulationCase("exclamation", chain(stalling_nodes(), _THREE, 240.0, service), seconds, warm_s),
        SimulationCase("pageload", pageload(stalling_nodes(), 240.0, service), seconds, warm_s),
        SimulationCase("processing", processing(stalling_nodes(), 240.0, service), seconds, warm_s),
        SimulationCase("micro", micro(Exponential(US_PER_S / 450)), seconds, warm_s),
        SimulationCase("pageload, packed", pageload(even_nodes(), 530.0, fast, packed=True), seconds, warm_s),
        *(SimulationCase(case, heterogeneous(case, Exponential(2000.0)), seconds, warm_s) for case in "abc"),
        SimulationCase("quiet", chain(even_nodes(), _THREE, 100.0, service), seconds, warm_s),
    ]
    return compare(
        "auto", auto.__doc__ or "", cases, arms, (*TAILS, "switches"),
        baselines=("none", "timeout", "shared_queue", "balancing"), seeds=seeds, progress=progress, weights=False,
    )  # fmt: skip
