"""Lever's section 5 on 16 to 64 nodes: completion time per workload beside four rivals, bursts, parts, intervals.

Plans are the runtime's (``lever.plans``). Stated by the paper: a quarter of the nodes at 1.2 instead of 2.6 GHz, 2 s
batches, four helpers, the rivals' settings. Assumed: how long each workload's stages take (``SHAPES``; word count's sum
is that of figure 13), 5 % noise, what moving a task costs (``batches.Cluster``), who else runs under YARN.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tailrace.lever.observe import BatchRun, NodeRun
from tailrace.lever.plans import DampedPlan, ExecutorNode, LeverPlan, Memory

from ..batches import BatchStage, Cluster
from ..comparison import ComparisonRow, PlotPanel, SimulationReport
from ..rivals.base import Rival
from ..rivals.dolly import Dolly
from ..rivals.skewtune import SkewTune
from ..rivals.speculation import Speculation
from ..rivals.wrangler import Wrangler
from ..summary import medians, ratios_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tailrace.lever.plans import BatchPlan

SLOW = 1.2 / 2.6
INTERVAL_MS = 2000.0
NOISE = 0.05
#: Batches a plan may settle in before it is measured.
WARM = 6
WITHIN = 1.25


@dataclass(frozen=True)
class WorkloadShape:
    """A workload: what a batch costs besides its stages, and how long a full-speed node has with each stage."""

    overhead_ms: float
    first_ms: float
    second_ms: float = 0.0


SHAPES = {
    "identity": WorkloadShape(300, 15),
    "sample": WorkloadShape(300, 30),
    "projection": WorkloadShape(300, 330),
    "grep": WorkloadShape(300, 300),
    "wordcount": WorkloadShape(300, 560, 50),
    "topk": WorkloadShape(300, 640, 40),
    "window": WorkloadShape(300, 740, 40),
    "ysb": WorkloadShape(300, 700, 40),
}
RIVALS: dict[str, Callable[[], Rival]] = {
    "default": Rival, "speculation": Speculation, "skewtune": SkewTune, "dolly": Dolly, "wrangler": Wrangler
}  # fmt: skip
PLANS: dict[str, BatchPlan] = {"lever": LeverPlan(), "damped": DampedPlan()}
HELPERS: dict[str, BatchPlan] = {f"{count}_helpers": LeverPlan(helpers=count) for count in (0, 2, 4, 6, 12)}
PARTS: dict[str, BatchPlan] = {
    "ips": LeverPlan(capacity=False, reassignment=False),
    "ips_ilc": LeverPlan(reassignment=False),
    "ips_ilc_cadr": LeverPlan(),
}


@dataclass(frozen=True)
class Played:
    """What the batches of one arm took, from their due time on and by themselves, and where tasks ran."""

    job_ms: tuple[float, ...]
    latency_ms: tuple[float, ...]
    local_share: float
    use: float

    def figures(self, warm: int = WARM) -> dict[str, float]:
        """Figures of a settled run."""
        return {
            "job_ms": statistics.fmean(self.job_ms[warm:]),
            "latency_ms": statistics.fmean(self.latency_ms[warm:]),
            "local_share": self.local_share,
            "cpu_use": self.use,
        }


def play(
    arm: str | BatchPlan, shape: WorkloadShape, speeds: Callable[[int], tuple[float, ...]], batches: int, seed: int,
    interval_ms: float = INTERVAL_MS,
) -> Played:  # fmt: skip
    """Run batches through a rival, or through a plan under default Spark."""
    random = Random(f"{seed}/lever")  # noqa: S311 - a simulation
    rival = RIVALS[arm]() if isinstance(arm, str) else Rival()
    memory = Memory()
    jobs: list[float] = []
    late: list[float] = []
    local: list[float] = []
    busy_ms = free_ms = 0.0
    scale = interval_ms / INTERVAL_MS
    for index in range(batches):
        now = tuple(speed * max(0.5, random.gauss(1.0, NOISE)) for speed in speeds(index))
        cluster = Cluster(now)
        nodes = [ExecutorNode(str(number)) for number in range(len(now))]
        total = shape.first_ms * scale * cluster.cores * len(now)
        loads = [total / len(now)] * len(now)
        if not isinstance(arm, str):
            given = arm.assign(memory, nodes, total).loads
            loads = [given.get(node.executor, 0.0) for node in nodes]
        first = BatchStage(loads, cluster).play(rival)
        rival.after(first)
        job_ms = shape.overhead_ms + first.makespan_ms
        if shape.second_ms:
            second = BatchStage([shape.second_ms * scale * cluster.cores] * len(now), cluster).play(rival)
            job_ms += second.makespan_ms + rival.between_ms
        if not isinstance(arm, str):
            runs = tuple(
                NodeRun(node.executor, load, finish)
                for node, load, finish in zip(nodes, loads, first.finish_ms, strict=True) if load > 0
            )  # fmt: skip
            memory = arm.learn(memory, BatchRun(index, runs))
        jobs.append(job_ms)
        # A batch is due at the end of its interval and begins when the one before is over.
        late.append(job_ms + (max(0.0, late[-1] - interval_ms) if late else 0.0))
        local.append(first.local_share)
        busy_ms += first.busy_ms
        free_ms += job_ms * cluster.cores * len(now)
    return Played(tuple(jobs), tuple(late), statistics.fmean(local), busy_ms / free_ms)


def two_types(nodes: int) -> Callable[[int], tuple[float, ...]]:
    """Three quarters of the nodes are of the faster type."""
    speeds = tuple(1.0 if number < nodes * 3 // 4 else SLOW for number in range(nodes))
    return lambda _batch: speeds


def shared(nodes: int, seed: int) -> Callable[[int], tuple[float, ...]]:
    """The same under YARN: another job takes half of a quarter of the nodes, others every five batches."""

    def at(batch: int) -> tuple[float, ...]:
        random = Random(f"{seed}/yarn/{batch // 5}")  # noqa: S311 - a simulation
        taken = set(random.sample(range(nodes), nodes // 4))
        return tuple(speed * (0.5 if number in taken else 1.0) for number, speed in enumerate(two_types(nodes)(0)))

    return at


def burst(nodes: int, node: int, begin: int) -> Callable[[int], tuple[float, ...]]:
    """From a batch on, one node has three times the work."""
    usual = two_types(nodes)(0)
    struck = tuple(speed / 3 if number == node else speed for number, speed in enumerate(usual))
    return lambda batch: struck if batch >= begin else usual


def arms_of(names: Sequence[str]) -> dict[str, str | BatchPlan]:
    """Rivals by name, plans as they are."""
    every: dict[str, str | BatchPlan] = {name: name for name in RIVALS}
    return {name: value for name, value in {**every, **PLANS, **PARTS, **HELPERS}.items() if name in names}


@dataclass(frozen=True)
class Study:
    """One case: its arms, its workload and its nodes."""

    case: str
    arms: Sequence[str]
    shape: WorkloadShape
    nodes: int = 16
    yarn: bool = False
    interval_ms: float = INTERVAL_MS

    def speeds(self, seed: int) -> Callable[[int], tuple[float, ...]]:
        """The nodes' speeds in each batch."""
        return shared(self.nodes, seed) if self.yarn else two_types(self.nodes)


def lever(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """Completion time of eight workloads on 16 nodes, of word count on 16 to 64 and under YARN; bursts and parts."""
    batches = 30 if quick else 120
    every = (*RIVALS, *PLANS)
    count = SHAPES["wordcount"]
    plan = [Study(name, every, shape) for name, shape in SHAPES.items()]
    plan += [Study(f"wordcount,nodes={nodes}", every, count, nodes=nodes) for nodes in (32, 64)]
    plan += [Study(f"{name},yarn", every, SHAPES[name], yarn=True) for name in ("wordcount", "ysb")]
    plan += [Study("parts", ("default", *PARTS), count), Study("helpers", ("default", *HELPERS), count)]
    plan += [
        Study(f"interval={seconds:g}s", ("default", "lever"), count, interval_ms=seconds * 1000)
        for seconds in (0.25, 0.5, 2.0, 10.0)
    ]
    rows: list[ComparisonRow] = []
    for done, study in enumerate(plan):
        progress(study.case, done / (len(plan) + 1))
        found = {
            name: [
                play(arm, study.shape, study.speeds(seed), batches, seed, study.interval_ms)
                for seed in range(1, seeds + 1)
            ]
            for name, arm in arms_of(study.arms).items()
        }
        rows += _rows(study.case, found)
    bursts, curves = _bursts(seeds)
    rows += bursts
    columns = ("job_ms", "latency_ms", "local_share", "cpu_use", "batches_to_settle")
    return SimulationReport("lever", lever.__doc__ or "", rows, [_per_workload(rows), *curves, *_parts(rows)], columns)


def _rows(case: str, found: Mapping[str, Sequence[Played]]) -> list[ComparisonRow]:
    figures = {arm: [each.figures() for each in runs] for arm, runs in found.items()}
    if case == "parts":
        base = found["default"]
        for arm, runs in found.items():
            for each, own, theirs in zip(figures[arm], runs, base, strict=True):
                gains = [1 - a / b for a, b in zip(own.job_ms[WARM:], theirs.job_ms[WARM:], strict=True)]
                each["gain_median"] = statistics.median(gains)
    return [ComparisonRow(case, arm, medians(figures[arm]), ratios_to(figures, arm)) for arm in found]


def _bursts(seeds: int) -> tuple[list[ComparisonRow], list[PlotPanel]]:
    """How many batches pass until all later ones are near the level a run ends on."""
    begin, batches, rows, panels = 10, 40, [], []
    for case, node in (("burst_on_slow", 15), ("burst_on_fast", 0)):
        lines, settled, ended = {}, {}, {}
        for name, arm in arms_of((*RIVALS, *PLANS)).items():
            runs = [
                play(arm, SHAPES["wordcount"], burst(16, node, begin), batches, seed) for seed in range(1, seeds + 1)
            ]
            lines[name] = [(float(index - begin), ms / 1000) for index, ms in enumerate(runs[0].latency_ms)]
            settled[name] = [{"batches_to_settle": float(_settle(run.latency_ms[begin:]))} for run in runs]
            ended[name] = [{"latency_ms": statistics.fmean(run.latency_ms[-5:])} for run in runs]
        for name, each in settled.items():
            figures = medians(each) | medians(ended[name])
            rows.append(ComparisonRow(case, name, figures, ratios_to(ended, name)))
        panels.append(
            PlotPanel(f"{case.replace('_', ' ')} node", "batches after the burst", "latency, s", lines, log_y=True)
        )
    return rows, panels


def _settle(latency_ms: Sequence[float]) -> int:
    level_ms = statistics.median(latency_ms[len(latency_ms) // 2 :])
    if latency_ms[-1] > WITHIN * latency_ms[len(latency_ms) // 2] > WITHIN * INTERVAL_MS:
        return len(latency_ms)  # batches queue up, more and more of them
    late = [index for index, value in enumerate(latency_ms) if value > WITHIN * level_ms]
    return late[-1] + 1 if late else 0


def _per_workload(rows: Sequence[ComparisonRow]) -> PlotPanel:
    names = tuple(SHAPES)
    by_case = {(row.case, row.arm): row for row in rows}
    lines = {
        arm: [
            (float(number), by_case[name, arm].ratios.get("default", {}).get("job_ms", 1.0))
            for number, name in enumerate(names)
        ]
        for arm in (*RIVALS, *PLANS)
    }
    title = "completion time per workload, 16 nodes"
    return PlotPanel(title, "workload", "ratio to default Spark", lines, ticks=names)


def _parts(rows: Sequence[ComparisonRow]) -> list[PlotPanel]:
    gains = [
        (float(number), row.figures["gain_median"]) for number, row in enumerate(r for r in rows if r.case == "parts")
    ]
    ticks = tuple(row.arm for row in rows if row.case == "parts")
    curve = [
        (float(row.case.removeprefix("interval=").removesuffix("s")), row.ratios["default"]["job_ms"])
        for row in rows
        if row.case.startswith("interval=") and row.arm == "lever"
    ]
    return [
        PlotPanel("parts of Lever, word count", "parts", "median gain per batch, share", {"gain": gains}, ticks=ticks),
        PlotPanel(
            "gain over the batch interval", "interval, s", "ratio to default Spark", {"lever": curve}, log_x=True
        ),
    ]
