"""The benches ``wordcount`` and ``exclaim``: what ``measure`` finds of them, as rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tailrace_bench.arms.contest import TRACKED
from tailrace_bench.bench import Bench, BenchOutcome
from tailrace_bench.measurement.machine import cores
from tailrace_bench.measurement.pace import Pace
from tailrace_bench.measurement.plan import FULL, QUICK

from . import measure
from .rows import comparison_rows

if TYPE_CHECKING:
    from tailrace_bench.bench import BenchRequest

#: A quick run offers the rates of a full one.
_CASES = (*(f"rate={rate}" for rate in FULL.offers_s), TRACKED, "sustainable")


def _compared(kind: str, request: BenchRequest) -> BenchOutcome:
    plan = QUICK if request.quick else FULL
    with Pace(request.console, measure.planned_s(plan, request.only)) as pace:
        found = measure.compare(kind, plan, pace, request.only)
    versions = {"bytewax": found.peer_version} if found.peer_version else {}
    return BenchOutcome(comparison_rows(kind, found, cores()), found.notes, versions)


WORDCOUNT = Bench("wordcount", partial(_compared, "wordcount"), _CASES)
EXCLAIM = Bench("exclaim", partial(_compared, "exclaim"), _CASES)
