"""``tailrace bench scale``: how cost grows with the number of tasks, of workers, and with nothing to do at all."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tailrace_bench.arms.contest import TRACKED, Contest
from tailrace_bench.arms.engine import WORKERS
from tailrace_bench.bench import Bench, Timed
from tailrace_bench.measurement import plan as times
from tailrace_bench.measurement import proc
from tailrace_bench.reporting.rows import limit_row, make_row

from .simulated import coordinator_cores

if TYPE_CHECKING:
    from tailrace_bench.bench import BenchOutcome, BenchRequest
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.measurement.plan import ComparisonTimes
    from tailrace_bench.reporting.rows import Row

TASK_COUNTS = (1, 2, 4, 8, 16)
_BASE_TASKS = 2
WORKER_COUNTS = (10, 100, 1000)
CASES = ("tasks", "idle", "coordinator")
_RATE_PER_S = 2000
_MS_PER_NS = 1e-6
IDLE_CORES_MAX = 0.02
COORDINATOR_CORES_MAX = 0.5
_IDLE_S = 5.0
_SIMULATED_S = 5.0


def planned_s(plan: ComparisonTimes, only: str | None) -> float:
    """About how long it takes."""
    per_run = times.OPEN_S + 2 * plan.warm_s + plan.window_s + plan.offers_s[_RATE_PER_S] + 2 * times.OFFER_EXTRA_S
    lengths = {
        "tasks": times.SPARK_S + len(TASK_COUNTS) * plan.repeats * per_run,
        "idle": times.SPARK_S + times.OPEN_S + plan.repeats * _IDLE_S,
        "coordinator": len(WORKER_COUNTS) * plan.repeats * 1.0,
    }
    return sum(length for case, length in lengths.items() if only in {None, case})


def rows(plan: ComparisonTimes, pace: Pace, only: str | None = None) -> list[Row]:
    """All three, or one."""
    runs = {"tasks": _tasks, "idle": _idle, "coordinator": _coordinator}
    return [row for case, run in runs.items() if only in {None, case} for row in run(plan, pace)]


def _tasks(plan: ComparisonTimes, pace: Pace) -> list[Row]:
    """The word count with ever more tasks per operator on the same workers; one query at a time, sizes in turn."""
    speeds: dict[int, list[float]] = {tasks: [] for tasks in TASK_COUNTS}
    tails: dict[int, list[float]] = {tasks: [] for tasks in TASK_COUNTS}
    with Contest("wordcount", lambda text: pace.step(text, times.SPARK_S)) as contest:
        for repeat in range(plan.repeats):
            for tasks in TASK_COUNTS if repeat % 2 == 0 else reversed(TASK_COUNTS):
                seconds = times.OPEN_S + 2 * plan.warm_s + plan.window_s + plan.offers_s[_RATE_PER_S]
                pace.step(f"{tasks} tasks per operator, repeat {repeat + 1} of {plan.repeats}", seconds)
                arm = contest.engine(TRACKED, label=f"tasks={tasks},{repeat}", tasks=tasks)
                arm.saturate(plan.warm_s, plan.warm_s)
                speeds[tasks].append(arm.saturate(plan.warm_s, plan.window_s).per_s)
                histogram = arm.offer(_RATE_PER_S, plan.offers_s[_RATE_PER_S])
                tails[tasks].append(histogram.percentile(0.99) * _MS_PER_NS)
                contest.retire(arm)
    baseline = f"tasks={_BASE_TASKS}"
    found = []
    for tasks in TASK_COUNTS:
        case = f"tasks={tasks}"
        found += [
            make_row(
                case, "sentences_per_s", "sentences/s", speeds[tasks],
                better="higher", baseline=baseline, base=speeds[_BASE_TASKS],
            ),
            make_row(
                case, "p99_ms", f"ms at {_RATE_PER_S}/s", tails[tasks],
                better="lower", baseline=baseline, base=tails[_BASE_TASKS],
            ),
        ]  # fmt: skip
    return found


def _idle(plan: ComparisonTimes, pace: Pace) -> list[Row]:
    """A running word count with nothing to read: CPU per worker."""
    values = []
    with Contest("wordcount", lambda text: pace.step(text, times.SPARK_S)) as contest:
        arm = contest.engine(TRACKED)
        arm.saturate(plan.warm_s, plan.warm_s)
        for repeat in range(plan.repeats):
            pace.step(f"Idle, repeat {repeat + 1} of {plan.repeats}", _IDLE_S)
            cpu_s, began_s = proc.cpu_s(arm.pids()), time.monotonic()
            time.sleep(_IDLE_S)
            values.append((proc.cpu_s(arm.pids()) - cpu_s) / (time.monotonic() - began_s) / WORKERS)
        contest.finish()
    return [limit_row("idle", "cores_per_worker", "cores", values, IDLE_CORES_MAX)]


def _coordinator(plan: ComparisonTimes, pace: Pace) -> list[Row]:
    found = []
    for workers in WORKER_COUNTS:
        values = []
        for repeat in range(plan.repeats):
            pace.step(f"Coordinator of {workers:,} simulated workers, repeat {repeat + 1} of {plan.repeats}", 1.0)
            values.append(coordinator_cores(workers))
        found.append(
            limit_row(f"coordinator,workers={workers}", "cores", "cores", values, COORDINATOR_CORES_MAX)
        )  # fmt: skip
    return found


_ROWS = Timed(times.QUICK, times.FULL, planned_s, rows)


def _measure(request: BenchRequest) -> BenchOutcome:
    found = _ROWS(request)
    if request.plots is not None:
        from tailrace_bench.reporting.plots import draw  # noqa: PLC0415 - matplotlib is loaded only when asked for

        found.notes += [f"Plot: {file}" for file in draw(found.rows, request.plots)]
    return found


BENCH = Bench("scale", _measure, CASES)
