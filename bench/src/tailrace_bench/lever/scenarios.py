"""How many batches Lever needs to settle after a change: the slow executor moves, bursts, two slow ones, a new rate.

Called by the benchmark's full run. A batch is settled when it and all that follow are within a quarter of the level
that the scenario ends on (the median of its last batches).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from tailrace.lever.plans import DEFAULT_PLAN

from .arms import LeverArm
from .cluster import HOSTS
from .plots import keep, sheet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .arms import Size
    from .measure import Testbed
    from .rows import Row

WITHIN = 1.25
TARGET, PAPER = 3, "6-7 batches"
FAST, SLOW = HOSTS[0], HOSTS[-1]


@dataclass(frozen=True, slots=True)
class LeverScenario:
    """What holds before and after the change."""

    name: str
    before: dict[str, float]
    after: dict[str, float]
    rate: float = 1.0
    """The input after the change, in parts of the input before."""


SCENARIOS = (
    LeverScenario("slow_moves", {SLOW: 4.0}, {FAST: 4.0}),
    LeverScenario("burst_on_fast", {SLOW: 4.0}, {SLOW: 4.0, FAST: 2.0}),
    LeverScenario("burst_on_slow", {SLOW: 2.0}, {SLOW: 6.0}),
    LeverScenario("two_slow", {SLOW: 4.0}, {SLOW: 4.0, HOSTS[2]: 4.0}),
    LeverScenario("rate_doubles", {SLOW: 4.0}, {SLOW: 4.0}, rate=2.0),
    LeverScenario("rate_halves", {SLOW: 4.0}, {SLOW: 4.0}, rate=0.5),
)


def settled_after(batch_ms: Sequence[float], *, within: float = WITHIN) -> int:
    """Count the batches before the level is reached and kept; single slow batches in the tail half are noise."""
    level_ms = median(batch_ms[len(batch_ms) // 2 :])
    late = [index for index, value in enumerate(batch_ms[: len(batch_ms) // 2]) if value > within * level_ms]
    return late[-1] + 1 if late else 0


def run(running: Testbed, size: Size, plots: Path | None, scenarios: Sequence[LeverScenario] = SCENARIOS) -> list[Row]:
    """Play every scenario with the default plan."""
    rows, curves = [], {}
    for scenario in scenarios:
        arm = LeverArm(f"scenario-{scenario.name}", plan=DEFAULT_PLAN)
        running.slowdown.set(scenario.before)
        same_rate = scenario.rate == 1.0
        before = running.batches("wordcount", arm, size.load, size.before, keep=same_rate)["batches"]
        running.slowdown.set(scenario.after)
        changed = replace(size.load, rows=int(size.load.rows * scenario.rate))
        after = running.batches("wordcount", arm, changed, size.after + 1)["batches"]
        # Another rate takes another query, which loads its state first: that batch says nothing about the plan.
        after_ms = [float(ms) for _, ms in (after if same_rate else after[1:])]
        curves[scenario.name] = [float(ms) for _, ms in before], after_ms
        rows.append(_row(scenario.name, settled_after(after_ms)))
    running.slowdown.set({})
    if plots:
        _draw(curves, plots / "lever_convergence.svg")
    return rows


def _row(name: str, batches: int) -> Row:
    return {
        "case": name,
        "metric": "batches_to_converge",
        "unit": "batches",
        "baseline": "target",
        "baseline_value": TARGET,
        "value": batches,
        "ratio": round(batches / TARGET, 3),
        "repeats": 1,
        "spread": 0.0,
        "better": "lower",
        "bar": 1.0,
        "ok": batches <= TARGET,
        "paper": PAPER if name.startswith("burst") else "",
    }


def _draw(curves: dict[str, tuple[list[float], list[float]]], target: Path) -> None:
    figure = sheet(12, 7)
    for panel, (name, (before, after)) in zip(figure.subplots(2, 3, sharey=True).flat, curves.items(), strict=False):
        panel.plot(range(-len(before), 0), before, label="before the change")
        panel.plot(range(len(after)), after, label="after it")
        panel.axvline(-0.5, linestyle=":")
        panel.set(title=name, xlabel="batches after the change", ylabel="duration of a batch, ms")
        panel.legend(fontsize=7)
    keep(figure, target)
