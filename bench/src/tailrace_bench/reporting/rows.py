"""Rows of a bench's report and their arithmetic: paired ratios, their median and spread, and whether a bar is met.

Pure. A ratio is value / baseline of the same repeat; ``ratio`` is the median of those, ``spread`` the distance between
their quartiles. Without a baseline ``spread`` is that of the values.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Literal

from tailrace.metrics.spread import quartile_distance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]
Better = Literal["higher", "lower"]
#: Fewer samples than this say nothing about one in a thousand.
P999_SAMPLES_MIN = 20_000


def paired_ratios(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """Value / baseline of each repeat in which both are there and the baseline is not 0."""
    return [value / other for value, other in zip(values, base, strict=False) if other]


def meets(ratio: float, bar: float, better: Better, spread: float = 0.0) -> bool:
    """Whether a bar holds; ``spread`` is what the figure may miss it by, where the bar allows for that."""
    return ratio >= bar - spread if better == "higher" else ratio <= bar + spread


def make_row(
    case: str,
    metric: str,
    unit: str,
    values: Sequence[float],
    *,
    better: Better,
    baseline: str | None = None,
    base: Sequence[float] = (),
    bar: float | None = None,
    within_spread: bool = False,
    paper: object = None,
) -> Row:
    """One row from the repeats of an arm and those of its baseline; no values at all make a row that says so."""
    ratios = paired_ratios(values, base)
    ratio = statistics.median(ratios) if ratios else None
    spread = quartile_distance(ratios or values)
    ok = None
    if bar is not None and ratio is not None:
        ok = meets(ratio, bar, better, spread if within_spread else 0.0)
    return {
        "case": case,
        "metric": metric,
        "unit": unit,
        "baseline": baseline,
        "baseline_value": statistics.median(base) if base else None,
        "value": statistics.median(values) if values else None,
        "ratio": ratio,
        "repeats": len(ratios or values),
        "spread": spread,
        "better": better,
        "bar": bar,
        "ok": ok,
        "paper": paper,
    }


def limit_row(case: str, metric: str, unit: str, values: Sequence[float], limit: float) -> Row:
    """A row whose bar is a limit on the value itself: the limit stands as the baseline, the bar on the ratio is 1."""
    found = make_row(case, metric, unit, values, better="lower", baseline="limit", base=[limit] * len(values), bar=1.0)
    return found | {"spread": quartile_distance(values) / limit}


def none_row(case: str, metric: str, count: int) -> Row:
    """A row for what must not be at all."""
    return make_row(case, metric, "tuples", [float(count)], better="lower") | {
        "baseline": "none", "bar": 0.0, "ok": count == 0,
    }  # fmt: skip


def missing_row(case: str, metric: str, unit: str, reason: str, better: Better) -> Row:
    """A row for what could not be measured, with the reason where the baseline stands."""
    return make_row(case, metric, unit, [], better=better, baseline=reason)


def failed(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows whose bar is missed."""
    return [row for row in rows if row["ok"] is False]
