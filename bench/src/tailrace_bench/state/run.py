"""The bench ``state``: its cases, their times and its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_bench.bench import Bench, BenchOutcome
from tailrace_bench.measurement.pace import Pace
from tailrace_bench.measurement.plan import FULL, QUICK

from . import checkpoints, keys, recovery

if TYPE_CHECKING:
    from tailrace_bench.bench import BenchRequest
    from tailrace_bench.reporting.rows import Row

CASES = (checkpoints.CASE, keys.CASE, recovery.CASE)
_KILLS, _QUICK_KILLS = 10, 3
NOTES = [
    "recovery_ms: from SIGKILL of a worker until the last result later than the p99 before by 50 ms; 0: none was.",
    "successor_ms: from SIGKILL until Spark had started the task again and the new worker had registered.",
    "[spark] makes rows that are due at whole seconds and answers in batches: late is later than its own p99 before.",
    "restore_s: a start that goes on from the checkpoint, less one that begins with nothing.",
]


def _measured(request: BenchRequest) -> BenchOutcome:
    plan = QUICK if request.quick else FULL
    kills = _QUICK_KILLS if request.quick else _KILLS
    wanted = CASES if request.only is None else (request.only,)
    planned_s = {
        checkpoints.CASE: checkpoints.planned_s(plan),
        keys.CASE: keys.planned_s(plan),
        recovery.CASE: recovery.planned_s(kills),
    }
    rows: list[Row] = []
    with Pace(request.console, sum(planned_s[case] for case in wanted)) as pace:
        if checkpoints.CASE in wanted:
            rows += checkpoints.rows(plan, pace)
        if keys.CASE in wanted:
            rows += keys.rows(plan, pace, quick=request.quick)
        if recovery.CASE in wanted:
            rows += recovery.rows(kills, pace)
    return BenchOutcome(rows, NOTES)


BENCH = Bench("state", _measured, CASES)
