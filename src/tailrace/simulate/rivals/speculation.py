"""Speculative execution as Lever's section 5.1 sets it: look every 100 ms, from half of the tasks on, multiplier 1.

A copy begins from the start and fetches its data. It loses in micro-batches because half of the stage is over before
anything is known.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from .base import Rival

if TYPE_CHECKING:
    from ..batches import BatchStage


class Speculation(Rival):
    """Copies of tasks that take longer than the median of those that are done."""

    tick_ms = 100.0
    quantile = 0.5
    multiplier = 1.0

    def tick(self, stage: BatchStage) -> None:
        """Start copies on the quickest idle nodes, oldest runs first."""
        if len(stage.took_ms) < self.quantile * len(stage.tasks):
            return
        limit_ms = self.multiplier * median(stage.took_ms)
        for run in sorted(stage.running, key=lambda each: each.begun_ms):
            if stage.now_ms - run.begun_ms <= limit_ms or len(run.task.runs) > 1:
                continue
            idle = [node for node, free in enumerate(stage.free) if free and node != run.node]
            if not idle:
                return
            stage.begin(run.task, max(idle, key=lambda node: (stage.cluster.speeds[node], stage.free[node])))
