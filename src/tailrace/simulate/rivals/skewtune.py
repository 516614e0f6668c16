"""SkewTune with local scan: when a core falls idle, the task with the most time left is stopped and cut up again.

What is left of it is scanned where it lies and spread over the idle nodes. It loses in micro-batches because it treats
one task at a time, and the slow node scans slowly too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..batches import BatchTask
from .base import Rival

if TYPE_CHECKING:
    from ..batches import BatchStage, TaskRun


class SkewTune(Rival):
    """Repartitions the worst task again and again."""

    #: Assumed: scanning costs this part of the work; planning and launching that long. Worth it from twice that on.
    scan_part = 0.2
    plan_ms = 100.0

    def __init__(self) -> None:
        self._until_ms = 0.0

    def before(self, stage: BatchStage) -> None:
        """Nothing is being cut yet."""
        del stage
        self._until_ms = 0.0

    def idle(self, stage: BatchStage) -> None:
        """Cut up one task if cores are idle and none is being cut."""
        if stage.now_ms < self._until_ms or not stage.running or any(stage.waiting):
            return
        nodes = [node for node, free in enumerate(stage.free) if free]
        worst = max(stage.running, key=lambda run: run.end_ms)
        left_ms = worst.end_ms - stage.now_ms
        if not nodes or left_ms <= 2 * self.plan_ms or worst.task.ready_ms > stage.now_ms:
            return
        self._cut(stage, worst, nodes)

    def _cut(self, stage: BatchStage, worst: TaskRun, nodes: list[int]) -> None:
        scan_ms = (worst.end_ms - stage.now_ms) * self.scan_part + self.plan_ms
        left = stage.stop(worst)
        self._until_ms = stage.now_ms + scan_ms
        speeds = stage.cluster.speeds
        total = sum(speeds[node] for node in nodes)
        pieces = [BatchTask(left * speeds[node] / total, worst.node, ready_ms=self._until_ms) for node in nodes]
        stage.replace(worst.task, pieces)
        for piece, node in zip(pieces, nodes, strict=True):
            stage.begin(piece, node)
