"""Figures of the benchmark: per round and arm, then the rows that ``tailrace bench`` prints and writes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from tailrace.metrics.spread import quartile_distance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.lever.explain.tasks import StageAttempt

Row = dict[str, Any]

WAIT_PART = 0.75
LOCAL = ("PROCESS_LOCAL", "NODE_LOCAL")


@dataclass(slots=True)
class Round:
    """The measured batches of one arm in one round."""

    batch_ms: list[float]
    stages: list[StageAttempt] = field(default_factory=list)

    @property
    def mean_ms(self) -> float:
        """Mean batch duration."""
        return mean(self.batch_ms)

    @property
    def p99_ms(self) -> float:
        """With fewer than a hundred batches the 99th percentile is the slowest one."""
        ordered = sorted(self.batch_ms)
        return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def paired(
    case: str,
    metric: str,
    baseline: str,
    values: Sequence[float],
    baseline_values: Sequence[float],
    *,
    bar: float | None = None,
    paper: str = "",
    unit: str = "ms",
) -> Row:
    """Make a row from paired rounds: the median of their ratios, and as its spread how far the middle half reaches."""
    ratios = [value / base for value, base in zip(values, baseline_values, strict=True)]
    ratio = median(ratios)
    return {
        "case": case,
        "metric": metric,
        "unit": unit,
        "baseline": baseline,
        "baseline_value": round(median(baseline_values), 3),
        "value": round(median(values), 3),
        "ratio": round(ratio, 3),
        "repeats": len(ratios),
        "spread": round(quartile_distance(ratios), 3),
        "better": "lower",
        "bar": bar,
        "ok": None if bar is None else ratio <= bar,
        "paper": paper,
    }


def plain(
    case: str, metric: str, unit: str, value: float, baseline: str, base: float, *, better: str, paper: str
) -> Row:
    """Make a row from one figure per arm."""
    return {
        "case": case,
        "metric": metric,
        "unit": unit,
        "baseline": baseline,
        "baseline_value": round(base, 3),
        "value": round(value, 3),
        "ratio": round(value / base, 3) if base else None,
        "repeats": 1,
        "spread": 0.0,
        "better": better,
        "bar": None,
        "ok": None,
        "paper": paper,
    }


def task_figures(rounds: Sequence[Round], trigger_s: float, cores: int) -> Mapping[str, float]:
    """Share of local tasks, share that waited over 3/4 of the interval, CPU utilisation by equation 10."""
    tasks = [(stage, task) for each in rounds for stage in each.stages for task in stage.tasks]
    if not tasks:
        return {"local_share": 0.0, "waiting_share": 0.0, "cpu_utilisation": 0.0}
    waited = sum(task.launch_ms - stage.submitted_ms > WAIT_PART * 1000 * trigger_s for stage, task in tasks)
    busy_ms = sum(task.duration_ms for _, task in tasks)
    total_ms = sum(sum(each.batch_ms) for each in rounds)
    return {
        "local_share": sum(task.locality in LOCAL for _, task in tasks) / len(tasks),
        "waiting_share": waited / len(tasks),
        "cpu_utilisation": busy_ms / (cores * total_ms),
    }
