"""Turns the task ends of a batch into what the planner learns from: per executor, its load and its node finish time.

Called by the planner with records from the JVM listener and by ``explain`` with records from an event log. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MIN_FINISH_MS = 1.0
"""Clocks tick in milliseconds; nothing is taken to be quicker than one tick."""


class TaskEnd(msgspec.Struct, array_like=True, frozen=True):
    """One attempt of one task of a planned stage, as the listener saw it end."""

    batch: int
    stage: int
    submitted_ms: int
    executor: str
    launch_ms: int
    finish_ms: int
    rows: int
    succeeded: bool
    outrun: bool
    """Killed because another attempt of the same task finished first."""
    locality: str
    operator: int = -1
    """The stateful operator whose state the task kept; -1 for a task that read a source."""
    partition: int = 0


@dataclass(frozen=True, slots=True)
class NodeRun:
    """What one executor carried in one batch, and when it was done with it."""

    executor: str
    load: float
    finish_ms: float


@dataclass(frozen=True, slots=True)
class BatchRun:
    """One planned stage of one batch as it went."""

    batch: int
    nodes: tuple[NodeRun, ...]

    @property
    def loads(self) -> dict[str, float]:
        """Load per executor."""
        return {node.executor: node.load for node in self.nodes}

    @property
    def finish_ms(self) -> dict[str, float]:
        """Node finish time (NFT) per executor."""
        return {node.executor: node.finish_ms for node in self.nodes}

    @property
    def makespan_ms(self) -> float:
        """The time until the last executor was done."""
        return max(node.finish_ms for node in self.nodes)


def observe(tasks: Iterable[TaskEnd], planned: Mapping[int, Mapping[str, float]]) -> list[BatchRun]:
    """Group task ends by batch and stage, oldest first; loads are in the units of the plan where a plan is known."""
    stages: dict[tuple[int, int], list[TaskEnd]] = defaultdict(list)
    for task in tasks:
        if task.operator < 0 and (task.succeeded or task.outrun):
            stages[task.batch, task.stage].append(task)
    runs = (_run(batch, ends, planned.get(batch, {})) for (batch, _), ends in sorted(stages.items()))
    return [run for run in runs if run.nodes]


def _run(batch: int, ends: list[TaskEnd], planned: Mapping[str, float]) -> BatchRun:
    rows: dict[str, int] = defaultdict(int)
    last_ms: dict[str, float] = {}
    for task in ends:
        rows[task.executor] += task.rows if task.succeeded else 0
        took_ms = max(MIN_FINISH_MS, float(task.finish_ms - task.submitted_ms))
        last_ms[task.executor] = max(last_ms.get(task.executor, 0.0), took_ms)
    rows_total = sum(rows.values())
    units_per_row = (sum(planned.values()) or rows_total) / rows_total if rows_total else 0.0
    loads = {executor: count * units_per_row or planned.get(executor, 0.0) for executor, count in rows.items()}
    # An executor that was given load and finished none of it was outrun by a copy, or too busy to begin; the end of
    # such an attempt comes seconds later. It took at least as long as the batch, and that must not be forgotten.
    makespan_ms = max(last_ms.values())
    for executor in planned.keys() - {task.executor for task in ends if task.succeeded}:
        loads[executor] = planned[executor]
        last_ms[executor] = max(last_ms.get(executor, 0.0), makespan_ms)
    nodes = (NodeRun(executor, load, last_ms[executor]) for executor, load in sorted(loads.items()) if load > 0)
    return BatchRun(batch, tuple(nodes))
