"""The benches by name. Each gives rows; those of other rooms live beside what they measure and are mounted here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailrace.errors import nearest

from . import compare, metrics, scale
from .compare_rows import comparison_rows
from .contest import TRACKED
from .errors import UnknownBenchError
from .machine import cores
from .pace import Pace
from .plan import FULL, QUICK

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from .plan import Plan
    from .rows import Row

#: Benches that live in other rooms, beside what they measure.
_MOUNTED = ("placement", "lever")
_COMPARED = ("wordcount", "exclaim")
_TAILS = ("hone", "sharedqueue", "balance", "timeout", "auto", "truth", "ablation")
NAMES = (*_COMPARED, "metrics", "scale", "ring", "dataframe", *_TAILS, "migrate", "topologies", *_MOUNTED)


@dataclass
class Outcome:
    """What a bench gives back."""

    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)


def check_name(name: str) -> None:
    """Refuse a name that is no bench's."""
    if name not in NAMES:
        raise UnknownBenchError(f"There is no bench called {name!r}.", nearest(name, NAMES))


def run_bench(name: str, console: Console, *, quick: bool, only: str | None, plots: Path | None) -> Outcome:
    """Run one bench."""
    check_name(name)
    if name in _MOUNTED:
        return _mounted(name, console, quick=quick, only=only, plots=plots)
    if name == "ring":
        from . import ring  # noqa: PLC0415 - it asks PySpark where its jars are

        return Outcome(*ring.run(console, quick=quick, only=only, plots=plots))
    if name == "topologies":
        from . import topologies  # noqa: PLC0415 - only where it is asked for

        return Outcome(*topologies.run(console, quick=quick, only=only, plots=plots))
    if name in _TAILS:
        return _tails(f"tails.{name}", console, quick=quick, only=only)
    if name == "migrate":
        return _tails(name, console, quick=quick, only=only)
    plan = QUICK if quick else FULL
    if name in _COMPARED:
        _check_only(only, (*(f"rate={rate}" for rate in plan.offers_s), TRACKED, "sustainable"))
        with Pace(console, compare.planned_s(plan, only)) as pace:
            found = compare.compare(name, plan, pace, only)
        versions = {"bytewax": found.peer_version} if found.peer_version else {}
        return Outcome(comparison_rows(name, found, cores()), found.notes, versions)
    if name == "metrics":
        with Pace(console, metrics.planned_s(plan)) as pace:
            return Outcome(metrics.rows(plan, pace))
    if name == "dataframe":
        return _dataframe(plan, console, only)
    _check_only(only, scale.CASES)
    with Pace(console, scale.planned_s(plan, only)) as pace:
        rows = scale.rows(plan, pace, only)
    notes = []
    if plots is not None:
        from .plots import draw  # noqa: PLC0415 - matplotlib is loaded only when asked for

        notes = [f"Plot: {file}" for file in draw(rows, plots)]
    return Outcome(rows, notes)


def _dataframe(plan: Plan, console: Console, only: str | None) -> Outcome:
    from . import dataframe  # noqa: PLC0415 - needs pyarrow

    _check_only(only, dataframe.CASES)
    with Pace(console, dataframe.planned_s(plan)) as pace:
        rows = dataframe.rows(plan, pace)
    return Outcome([row for row in rows if only in {None, row["case"]}], dataframe.NOTES)


def _tails(name: str, console: Console, *, quick: bool, only: str | None) -> Outcome:
    bench: Any = importlib.import_module(f"tailrace.bench.{name}")  # only now: it asks for Spark
    _check_only(only, bench.CASES)
    times = bench.QUICK if quick else bench.FULL
    with Pace(console, bench.planned_s(times, only)) as pace:
        return Outcome(bench.rows(times, pace, only), bench.NOTES)


def _check_only(only: str | None, cases: tuple[str, ...]) -> None:
    if only is not None and only not in cases:
        raise UnknownBenchError(f"This bench has no case {only!r}.", nearest(only, cases))


def _mounted(name: str, console: Console, *, quick: bool, only: str | None, plots: Path | None) -> Outcome:
    """Run a bench of another room; they import much, so only the one asked for is loaded."""
    if name == "lever":
        from tailrace.lever.bench import run  # noqa: PLC0415

        return Outcome(run(quick=quick, cases=(only,) if only else (), plots=plots))
    from tailrace.placement.bench import rows  # noqa: PLC0415

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    return Outcome([row for row in rows(quick=quick, say=say) if only in {None, row["case"]}])
