"""What every part of ``explain`` works on: finished tasks, grouped by the stage that ran them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from ..observe import BatchRun, NodeRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One successful attempt of a task."""

    stage: int
    attempt: int
    executor: str
    host: str
    launch_ms: int
    finish_ms: int
    rows: int
    bytes_read: int
    query: str = ""
    batch: int = -1
    locality: str = ""
    index: int = -1
    shuffle_rows: int = 0
    shuffle_bytes: int = 0

    @property
    def records(self) -> int:
        """All that it read: rows of sources and of shuffles."""
        return self.rows + self.shuffle_rows

    @property
    def data_bytes(self) -> int:
        """The bytes of that."""
        return self.bytes_read + self.shuffle_bytes

    @property
    def duration_ms(self) -> int:
        """Launch to finish."""
        return self.finish_ms - self.launch_ms


@dataclass(frozen=True, slots=True)
class StageAttempt:
    """One attempt of a stage with its tasks."""

    stage: int
    attempt: int
    submitted_ms: int
    tasks: tuple[TaskAttempt, ...]

    @property
    def executors(self) -> frozenset[str]:
        """Who took part."""
        return frozenset(task.executor for task in self.tasks)

    @property
    def query(self) -> str:
        """The streaming query this stage belongs to, or nothing."""
        return self.tasks[0].query

    @property
    def batch(self) -> int:
        """The micro-batch this stage belongs to, or -1."""
        return self.tasks[0].batch

    @property
    def took_ms(self) -> int:
        """Submission to the last end."""
        return max(task.finish_ms for task in self.tasks) - self.submitted_ms

    def run(self, number: int) -> BatchRun:
        """See the stage as a batch: load per executor in rows, else bytes, else tasks; finish from submission."""
        weigh = _weight(self.tasks)
        loads: dict[str, float] = defaultdict(float)
        finish_ms: dict[str, float] = defaultdict(lambda: 1.0)
        for task in self.tasks:
            loads[task.executor] += weigh(task)
            finish_ms[task.executor] = max(finish_ms[task.executor], float(task.finish_ms - self.submitted_ms))
        nodes = (NodeRun(executor, load, finish_ms[executor]) for executor, load in sorted(loads.items()) if load)
        return BatchRun(number, tuple(nodes))


def stages_of(tasks: Iterable[TaskAttempt], submitted_ms: dict[tuple[int, int], int]) -> list[StageAttempt]:
    """Group tasks by stage attempt, in order of the first launch."""
    grouped: dict[tuple[int, int], list[TaskAttempt]] = defaultdict(list)
    for task in tasks:
        grouped[task.stage, task.attempt].append(task)
    first_ms = {key: min(task.launch_ms for task in own) for key, own in grouped.items()}
    return [
        StageAttempt(*key, min(submitted_ms.get(key, first_ms[key]), first_ms[key]), tuple(grouped[key]))
        for key in sorted(grouped, key=lambda key: (first_ms[key], key))
    ]


def _weight(tasks: Sequence[TaskAttempt]) -> Callable[[TaskAttempt], int]:
    if all(task.rows for task in tasks):
        return attrgetter("rows")
    if all(task.bytes_read for task in tasks):
        return attrgetter("bytes_read")
    return lambda _task: 1
