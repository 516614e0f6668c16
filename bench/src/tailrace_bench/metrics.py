"""``tailrace bench metrics``: what the metrics cost, saturated, on and off in one run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tailrace.config import Settings

from .arms.contest import TRACKED, Contest
from .arms.engine import SETTINGS
from .bench import Bench, Timed
from .measurement import plan as times
from .measurement import rounds
from .reporting.rows import make_row, missing_row

if TYPE_CHECKING:
    from .measurement.pace import Pace
    from .measurement.plan import ComparisonTimes
    from .reporting.rows import Row

_SETTING = "metrics"
_METRIC, _UNIT = "sentences_per_s", "sentences/s"
#: With metrics on, at least this share of the speed without.
BAR = 0.95
#: So many times the plan's repeats, each so much shorter: 5 % is less than two windows of a shared machine differ by.
_FINER = 3


def _repeats(plan: ComparisonTimes) -> int:
    return _FINER * plan.repeats


def _window_s(plan: ComparisonTimes) -> float:
    return plan.window_s / _FINER


def planned_s(plan: ComparisonTimes, _only: str | None = None) -> float:
    """About how long it takes."""
    window_s = plan.warm_s + _window_s(plan) + times.WINDOW_EXTRA_S
    return times.SPARK_S + 2 * times.OPEN_S + 2 * _repeats(plan) * window_s


def rows(plan: ComparisonTimes, pace: Pace, _only: str | None = None) -> list[Row]:
    """Run the word count with metrics on and off, in turns."""
    if _SETTING not in {each.name for each in dataclasses.fields(Settings)}:
        return [missing_row("metrics=on", _METRIC, _UNIT, "metrics cannot be switched off in this version", "higher")]
    with Contest("wordcount", lambda text: pace.step(text, 0)) as contest:
        pace.step("Starting Spark and two queries", times.SPARK_S + 2 * times.OPEN_S)
        arms = {}
        for name in ("on", "off"):
            switched: Any = {_SETTING: name == "on"}
            settings = dataclasses.replace(SETTINGS, **switched)
            arms[name] = contest.engine(TRACKED, label=f"metrics={name}", settings=settings)
        for arm in arms.values():
            arm.saturate(plan.warm_s, plan.warm_s)

        def measure(name: str) -> float:
            pace.step(f"Metrics {name}", plan.warm_s + _window_s(plan) + times.WINDOW_EXTRA_S)
            return arms[name].saturate(plan.warm_s, _window_s(plan)).per_s

        speeds = rounds.take(list(arms), _repeats(plan), measure, pace, spare=_FINER * plan.spare)
        contest.finish()
    return [
        make_row(
            "metrics=on", _METRIC, _UNIT, speeds["on"],
            better="higher", baseline="metrics=off", base=speeds["off"], bar=BAR,
        )
    ]  # fmt: skip


BENCH = Bench("metrics", Timed(times.QUICK, times.FULL, planned_s, rows))
