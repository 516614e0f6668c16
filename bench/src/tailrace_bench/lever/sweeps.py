"""The paper's sensitivity study: helpers 0 to 12 (simulated, four executors are too few) and the batch interval.

Called by the benchmark; the helper sweep needs no Spark and is part of every run.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import mean
from typing import TYPE_CHECKING

from tailrace.lever.plans import DEFAULT_PLAN, BatchPlan, LeverPlan, plan_of
from tailrace.lever.simulate import SimulatedBatch, simulate

from .arms import ARMS
from .measure import measure
from .plots import keep, sheet
from .rows import Row, paired, plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .arms import Size
    from .measure import Testbed

HELPERS = tuple(range(13))
PAPER_INTERVALS = {0.25: "-21.47 %", 0.5: "-27.78 %", 2.0: "-43.39 %"}
NODES, SLOW_NODES = 64, 16
BATCHES, SKIPPED = 60, 10
ROUNDS, LONG_S = 2, 5.0
"""Rounds of the sweep over intervals, which has no bar; a long interval gets one."""


def simulated_ms(plan: BatchPlan, seed: int = 1) -> float:
    """Mean batch time on 64 nodes of the paper's two machine types (1.2 and 2.6 GHz), once settled."""
    speeds = {str(i): (1.2 / 2.6 if i < SLOW_NODES else 1.0) for i in range(NODES)}
    batches = [SimulatedBatch(1000.0 * NODES, speeds)] * BATCHES
    random = Random(seed)  # noqa: S311  a simulation
    outcomes = simulate(plan, batches, overhead_ms=100.0, noise=0.05, random=random)
    return mean(outcome.makespan_ms for outcome in outcomes[SKIPPED:])


def helpers(plots: Path | None, counts: Sequence[int] = HELPERS) -> list[Row]:
    """Sweep the number of helpers of the paper's plan; none is the baseline."""
    base_ms = simulated_ms(LeverPlan(helpers=0))
    found = {count: simulated_ms(LeverPlan(helpers=count)) for count in counts}
    if plots:
        _draw(found, "helpers", "simulated duration of a batch, ms", plots / "lever_helpers.svg")
    rows = [
        plain(f"helpers_{count}", "batch_ms_mean", "ms", value, "helpers_0", base_ms, better="lower",
              paper="near ideal" if count == 4 else "best" if count == 6 else "")  # noqa: PLR2004  the paper's counts
        for count, value in found.items()
    ]  # fmt: skip
    own_ms = simulated_ms(plan_of(DEFAULT_PLAN))
    return [*rows, plain(f"helpers_{DEFAULT_PLAN}", "batch_ms_mean", "ms", own_ms, "helpers_0", base_ms,
                         better="lower", paper="")]  # fmt: skip


def intervals(running: Testbed, full: Size, plots: Path | None) -> list[Row]:
    """Sweep the trigger interval at a constant input rate: short batches are mostly overhead and gain less."""
    arms = [arm for arm in ARMS if arm.name in {"default", DEFAULT_PLAN}]
    rows, curve = [], {}
    for length_s in full.lengths_s:
        load = replace(full.load, trigger_s=length_s, rows=max(8, int(full.load.rows * length_s / full.load.trigger_s)))
        rounds = min(ROUNDS if length_s < LONG_S else 1, full.rounds)
        size = replace(full, load=load, rounds=rounds, warm_up=min(1, full.warm_up))
        found = measure(running, "wordcount", size, arms, name=f"interval_{length_s}s")
        own, base = ([r.mean_ms for r in found[name]] for name in (DEFAULT_PLAN, "default"))
        rows.append(
            paired(
                f"interval_{length_s}s", "batch_ms_mean", "default", own, base, paper=PAPER_INTERVALS.get(length_s, "")
            )
        )
        curve[length_s] = rows[-1]["ratio"]
    if plots:
        _draw(curve, "interval, s", "batch time, ratio to default Spark", plots / "lever_intervals.svg")
    return rows


def _draw(points: dict[float, float] | dict[int, float], x: str, y: str, target: Path) -> None:
    figure = sheet(6, 4)
    panel = figure.subplots()
    panel.plot([*points.keys()], [*points.values()], marker="o", label="lever")
    panel.set(xlabel=x, ylabel=y, ylim=(0, None))
    panel.legend(fontsize=7)
    keep(figure, target)
