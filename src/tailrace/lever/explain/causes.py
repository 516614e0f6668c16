"""Why tasks of an executor took longer than others: it is slow, or they had more data to read.

Called by the report. Pure. Input per task stands beside time per task: where the time follows the input, the executor
is not to blame, and no plan that goes by speed mends it. Where the log counts no input, neither can be said.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import mean, median
from typing import TYPE_CHECKING

from .locality import SLOW_FACTOR, slow_executors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .tasks import StageAttempt, TaskAttempt

TASK_FACTOR = 2.0
"""A task stands out if it took, and read, this many times the stage's median."""
TASKS_SHOWN_MAX = 5

SLOW, DATA, UNKNOWN = "slow", "data", "unknown"


@dataclass(frozen=True, slots=True)
class Measure:
    """One way to count what a task read. Less than ``negligible`` explains no time, so nothing counts as less."""

    unit: str
    of: Callable[[TaskAttempt], int]
    negligible: int

    def factor(self, size: float, typical: float) -> float:
        """How many times the typical input this is."""
        return max(size, self.negligible) / max(typical, self.negligible)


MEASURES = (
    Measure("records", lambda task: task.records, 100),
    Measure("bytes", lambda task: task.data_bytes, 64 * 1024),
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One executor that was late in one stage, as multiples of the median executor of that stage."""

    stage: int
    executor: str
    time_factor: float
    """Mean time of a task."""
    input_factor: float | None
    """Mean input of a task; None where the log counts none."""

    @property
    def kind(self) -> str:
        """Whether it is slow for what it read, or read more; the latter if that explains the time."""
        if self.input_factor is None:
            return UNKNOWN
        return SLOW if self.time_factor > SLOW_FACTOR * max(1.0, self.input_factor) else DATA


@dataclass(frozen=True, slots=True)
class LargeTask:
    """A task that took long because it had more to read than the others of its stage."""

    stage: int
    index: int
    executor: str
    time_factor: float
    input_factor: float
    input_size: int
    unit: str


def causes_of(stages: Iterable[StageAttempt]) -> list[Cause]:
    """Find out for every executor that was late in a stage how late it was, and how much more it had to read."""
    return [cause for stage in stages for cause in _causes(stage)]


def _causes(stage: StageAttempt) -> list[Cause]:
    late = sorted(executor for executor, is_slow in slow_executors(stage).items() if is_slow)
    if not late:
        return []
    time_ms = _means(stage.tasks, lambda task: task.duration_ms)
    typical_ms = max(1.0, median(time_ms.values()))
    counted = [measure for measure in MEASURES if any(map(measure.of, stage.tasks))]
    inputs = [(measure, _means(stage.tasks, measure.of)) for measure in counted]
    return [
        Cause(
            stage.stage,
            executor,
            time_ms[executor] / typical_ms,
            max((measure.factor(own[executor], median(own.values())) for measure, own in inputs), default=None),
        )
        for executor in late
    ]


def large_tasks(stages: Iterable[StageAttempt]) -> list[LargeTask]:
    """Find the tasks that stand out in time and in input, the longest first."""
    found = [task for stage in stages for task in _large(stage)]
    return sorted(found, key=lambda task: -task.time_factor)


def _large(stage: StageAttempt) -> list[LargeTask]:
    typical_ms = max(1.0, median(task.duration_ms for task in stage.tasks))
    typical = [(measure, median(map(measure.of, stage.tasks))) for measure in MEASURES]
    found = []
    for task in stage.tasks:
        time_factor = task.duration_ms / typical_ms
        if time_factor < TASK_FACTOR:
            continue
        factor, unit, size = max(
            (measure.factor(measure.of(task), usual), measure.unit, measure.of(task)) for measure, usual in typical
        )
        # As for executors: what was read must explain the time, or the task was slow for another reason.
        if factor >= TASK_FACTOR and time_factor <= SLOW_FACTOR * factor:
            found.append(LargeTask(stage.stage, task.index, task.executor, time_factor, factor, size, unit))
    return found


def _means(tasks: Sequence[TaskAttempt], measure: Callable[[TaskAttempt], int]) -> dict[str, float]:
    own: dict[str, list[int]] = defaultdict(list)
    for task in tasks:
        own[task.executor].append(measure(task))
    return {executor: mean(values) for executor, values in own.items()}
