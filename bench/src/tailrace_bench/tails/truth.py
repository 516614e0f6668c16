"""``tailrace bench truth``: does the simulator tell the truth? Five scenarios on the runtime, beside its predictions.

The same rates, service times, slow workers and stalls run for real, on plain processes, and on the virtual clock. What
the runtime costs besides is measured first, with idle queues: a hop, and how much longer than asked for a timed wait
takes. Nothing is fitted to the scenarios themselves.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tailrace.config import Policy, Settings
from tailrace.simulate.distributions import Exponential, Plus, Uniform
from tailrace.simulate.engine import Engine
from tailrace.simulate.model import Model, NodeModel, Policies, SourceModel, StageModel, Stalls
from tailrace_bench.bench import Bench, Timed
from tailrace_bench.reporting.rows import make_row

from .arms import WORKERS, TailCase, TailTimes, hosts_of, run_case
from .flows import Service, chain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.simulate.results import SimulationResult
    from tailrace.testing.chaos import Knobs
    from tailrace.topology.graph import Topology
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

    from .arms import ArmHosts, TailMeasurements

WITHIN = 0.25
WANTED = 4
SEEDS = 5
_NS_PER_MS = 1e6
_PROBE_S = 0.004
_PROBE_PER_S = 8.0
_STALL_EVERY_S, _STALL_S = 5.0, (0.02, 0.1)
QUICK = TailTimes(repeats=1, warm_s=5.0, window_s=20.0, windows=1)
FULL = TailTimes(repeats=1, warm_s=10.0, window_s=60.0, windows=1)
_CALIBRATION = TailTimes(repeats=1, warm_s=2.0, window_s=5.0, windows=1)
_SETTINGS = Settings(progress_s=0.5)
NOTES = [
    "Predicted values stand as the baseline; a scenario is true when p50, p99 and throughput are all within 25 %.",
    "The simulator knows the cost of a hop and of a timed wait, both measured in this run with idle queues.",
]


@dataclass(frozen=True)
class TruthScenario:
    """What runs on both sides. ``slowness`` and ``stalls`` are per worker; load is that of the slowest task's queue."""

    name: str
    bolts: int
    tasks: int
    mean_s: float
    load: float
    policy: str = "even"
    inbox: str = "per_task"
    slowness: tuple[float, ...] = (1.0,) * WORKERS
    stalls: bool = False

    @property
    def per_source_s(self) -> float:
        """Roots per second of each source task."""
        return self.load / max(self.slowness) / self.mean_s * self.tasks / WORKERS


SCENARIOS = (
    TruthScenario("queues", 1, 20, 1 / 45, 0.75),
    TruthScenario("shared", 1, 20, 1 / 45, 0.75, inbox="shared"),
    TruthScenario("uneven", 3, 5, 0.008, 0.7, slowness=(2.0, 2.0, 1.0, 1.0, 1.0)),
    TruthScenario("balanced", 3, 5, 0.008, 0.7, policy="shortest_delay", slowness=(2.0, 2.0, 1.0, 1.0, 1.0)),
    TruthScenario("stalls", 3, 5, 0.004, 0.3, stalls=True),
)
CASES = tuple(scenario.name for scenario in SCENARIOS)


@dataclass(frozen=True)
class Costs:
    """What the runtime takes besides: per hop, and per timed wait."""

    hop_us: float
    wait_us: float


def planned_s(times: TailTimes, only: str | None) -> float:
    """About how long it takes."""
    return 2 * _CALIBRATION.arm_s + (1 if only else len(SCENARIOS)) * (times.arm_s + 8.0)


def rows(times: TailTimes, pace: Pace, only: str | None = None, *, spark: bool = False) -> list[Row]:
    """Calibrate, then run each scenario on both sides."""
    found: list[Row] = []
    true = 0
    wanted = [scenario for scenario in SCENARIOS if only in {None, scenario.name}]
    with hosts_of(pace, spark=spark) as hosts:
        costs = calibrate(hosts, pace)
        found += [
            make_row("calibration", "hop_us", "us", [costs.hop_us], better="lower"),
            make_row("calibration", "wait_us", "us", [costs.wait_us], better="lower"),
        ]
        for scenario in wanted:
            case = TailCase(scenario.name, partial(_flow, scenario), partial(_disturb, scenario))
            policy = Policy(routing=scenario.policy, inbox=scenario.inbox, replay="fixed:600s")
            measured = run_case(hosts, case, {scenario.name: policy}, _SETTINGS, times, pace)[scenario.name]
            own = compared(scenario, measured, predict(scenario, costs, times), times)
            true += all(row["ok"] for row in own)
            found += own
    if only is None:
        found.append(
            make_row("all", "scenarios_true", "of 5", [float(true)], better="higher", baseline="wanted", base=[WANTED],
                     bar=1.0)
        )  # fmt: skip
    return found


def calibrate(hosts: ArmHosts, pace: Pace) -> Costs:
    """Idle queues, three bolts: without any wait for the cost of a hop, with one for what a wait takes too long."""
    medians_us = []
    for wait_s in (0.0, _PROBE_S):
        flow = _probe(wait_s)
        case = TailCase(f"calibration, {wait_s * 1000:.0f} ms", flow, lambda _knobs, _seed: None)
        measured = run_case(hosts, case, {"probe": Policy(replay="fixed:600s")}, _SETTINGS, _CALIBRATION, pace)["probe"]
        medians_us.append(measured.pooled.percentile(0.5) / 1000)
    # Three bolts and the sink: four hops. Acknowledging is part of what they take.
    return Costs(medians_us[0] / 4, max(0.0, (medians_us[1] - medians_us[0]) / 3 - _PROBE_S * 1e6))


def _probe(wait_s: float) -> Callable[[Knobs, int], Topology]:
    def flow(knobs: Knobs, seed: int) -> Topology:
        return chain(_names(3), _PROBE_PER_S, partial(Service, knobs, wait_s, fixed=True), seed=seed)

    return flow


def _names(bolts: int) -> tuple[str, ...]:
    return tuple(f"bolt{number}" for number in range(1, bolts + 1))


def _flow(scenario: TruthScenario, knobs: Knobs, seed: int) -> Topology:
    service = partial(Service, knobs, scenario.mean_s)
    return chain(_names(scenario.bolts), scenario.per_source_s, service, seed=seed, tasks=scenario.tasks)


def _disturb(scenario: TruthScenario, knobs: Knobs, seed: int) -> None:
    for worker, times in enumerate(scenario.slowness):
        knobs.slow(worker, times)
    if scenario.stalls:
        knobs.pause_at_random(range(WORKERS), every_s=_STALL_EVERY_S, lasting_s=_STALL_S, seed=seed)


def model_of(scenario: TruthScenario, costs: Costs) -> Model:
    """The same on the virtual clock: a wait is scaled by its worker's slowness, what it takes too long is not."""
    stalls = Stalls(Exponential(_STALL_EVERY_S * 1000), Uniform(_STALL_S[0] * 1000, _STALL_S[1] * 1000))
    hop_us = costs.hop_us
    nodes = tuple(
        NodeModel(
            speed=1 / slow, stalls=stalls if scenario.stalls else None, delay_us=hop_us, near_us=hop_us, own_us=hop_us
        )
        for slow in scenario.slowness
    )
    service = Plus(Exponential(scenario.mean_s * 1e6), costs.wait_us)
    stages, before = [], "source"
    for name in _names(scenario.bolts):
        stages.append(StageModel(name, scenario.tasks, service, (before,)))
        before = name
    # The sink does nothing, but a tuple has to get there.
    stages.append(StageModel("end", WORKERS, Exponential(1.0), (before,)))
    return Model(nodes, SourceModel(WORKERS, scenario.per_source_s), tuple(stages))


def predict(scenario: TruthScenario, costs: Costs, times: TailTimes) -> list[SimulationResult]:
    """Several seeds of the same length as the real run."""
    policies = replace(Policies(), routing=scenario.policy, inbox=scenario.inbox)
    seconds = times.warm_s + times.windows * times.window_s
    return [Engine(model_of(scenario, costs), policies, seed).run(seconds, times.warm_s) for seed in range(SEEDS)]


def compared(
    scenario: TruthScenario, measured: TailMeasurements, predicted: Sequence[SimulationResult], times: TailTimes
) -> list[Row]:
    """A row per figure; ``ok`` when it is within the bound, above or below."""
    whole, seconds = measured.pooled, times.windows * times.window_s
    figures = {
        "p50_ms": (whole.percentile(0.5) / _NS_PER_MS, [result.ms(0.5) for result in predicted]),
        "p99_ms": (whole.percentile(0.99) / _NS_PER_MS, [result.ms(0.99) for result in predicted]),
        "throughput": (len(whole) / seconds, [len(result.latencies_ns) / seconds for result in predicted]),
    }
    found = []
    for metric, (ours, theirs) in figures.items():
        row = make_row(
            scenario.name, metric, "roots/s" if metric == "throughput" else "ms", [ours],
            better="higher" if metric == "throughput" else "lower",
            baseline="simulated", base=[statistics.median(theirs)],
        )  # fmt: skip
        found.append(row | {"ok": abs(row["ratio"] - 1) <= WITHIN, "spread": max(theirs) - min(theirs)})
    return found


BENCH = Bench("truth", Timed(QUICK, FULL, planned_s, rows, NOTES), CASES)
