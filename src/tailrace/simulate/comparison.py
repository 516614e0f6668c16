"""Runs the arms of a scenario over its cases and seeds, and sums up: medians, and paired ratios against baselines.

``scenarios`` describe, ``cli`` prints and draws. A ratio is arm / baseline of the same seed; the median of those is
given, as benches do it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .engine import Engine
from .summary import medians, ratios_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .model import Model, Policies
    from .results import SimulationResult

#: Told what is being run and which share of all is done.
Progress = "Callable[[str, float], None]"
#: Points of a tail curve: from one in two to one in ten thousand.
_TAIL = tuple(10 ** (-each / 12) for each in range(4, 49))
_POINTS_MIN = 10


@dataclass(frozen=True)
class SimulationCase:
    """A model, how long it runs, and what of it is left out as warm-up."""

    name: str
    model: Model
    seconds: float
    warm_s: float
    #: Arms of this case only, in place of the scenario's.
    arms: Mapping[str, Policies] | None = None


@dataclass(frozen=True)
class PlotPanel:
    """One plot: lines by name over an axis; with ``ticks``, groups of bars, x being the number of the tick."""

    title: str
    x_label: str
    y_label: str
    lines: dict[str, list[tuple[float, float]]]
    log_x: bool = False
    log_y: bool = False
    ticks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparisonRow:
    """One arm of one case: median figures, and by baseline the median paired ratios."""

    case: str
    arm: str
    figures: dict[str, float]
    ratios: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SimulationReport:
    """What ``tailrace simulate`` shows."""

    scenario: str
    about: str
    rows: list[ComparisonRow]
    panels: list[PlotPanel]
    columns: tuple[str, ...]
    #: Runs behind each figure where that is not one per seed.
    runs: int | None = None


def compare(
    name: str,
    about: str,
    cases: Sequence[SimulationCase],
    arms: Mapping[str, Policies],
    columns: tuple[str, ...],
    *,
    baselines: tuple[str, ...],
    seeds: int,
    progress: Callable[[str, float], None],
    weights: bool = True,
) -> SimulationReport:
    """Run everything; arms of a seed one after the other, on the same arrivals. ``weights`` are drawn if asked for."""
    rows: list[ComparisonRow] = []
    panels: list[PlotPanel] = []
    plan = [(case, arm) for case in cases for arm in (case.arms or arms)]
    done = 0
    for case in cases:
        results: dict[str, list[SimulationResult]] = {}
        for arm, policies in (case.arms or arms).items():
            results[arm] = []
            for seed in range(1, seeds + 1):
                label = f"{case.name} / {arm} / seed {seed}"
                share = done / (len(plan) * seeds)

                def inner(part: float, label: str = label, share: float = share) -> None:
                    progress(label, share + part / (len(plan) * seeds))

                results[arm].append(Engine(case.model, policies, seed).run(case.seconds, case.warm_s, inner))
                done += 1
        rows += [_row(case.name, arm, results, baselines) for arm in results]
        panels.append(_tails(case.name, results))
        panels += _weights(case.name, results) if weights else []
    return SimulationReport(name, about, rows, panels, columns)


def _row(
    case: str, arm: str, results: Mapping[str, Sequence[SimulationResult]], baselines: tuple[str, ...]
) -> ComparisonRow:
    figures = {name: [result.figures() for result in runs] for name, runs in results.items()}
    notes = tuple(f"at {second:.0f} s {text}" for second, text in results[arm][0].switches)
    return ComparisonRow(case, arm, medians(figures[arm]), ratios_to(figures, arm, baselines), notes)


def _tails(case: str, results: Mapping[str, Sequence[SimulationResult]]) -> PlotPanel:
    tails = {arm: _tail(each[0]) for arm, each in results.items()}
    return PlotPanel(f"{case}: complete latency", "latency, ms", "share of roots above", tails, log_x=True, log_y=True)


def _weights(case: str, results: Mapping[str, Sequence[SimulationResult]]) -> list[PlotPanel]:
    """How the first balanced edge's weights went over time."""
    found = []
    for arm, each in results.items():
        history = each[0].shares
        if history:
            lines = {
                f"task {task}": [(second, weights[task]) for second, weights in history]
                for task in range(len(history[0][1]))
            }
            found.append(PlotPanel(f"{case}: weights under {arm}", "time, s", "weight, share of the traffic", lines))
    return found


def _tail(result: SimulationResult) -> list[tuple[float, float]]:
    shares = [share for share in _TAIL if share * len(result.latencies_ns) >= _POINTS_MIN]
    return [(result.ms(1 - share), share) for share in shares]
