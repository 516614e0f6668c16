"""Wrangler: nodes that a model expects to straggle, with a confidence of 0.7, give up the tasks they have not begun.

The model here is a stand-in for its classifier: how often the node straggled of late. It forgets as fast as it learns,
so a node that was spared looks well and is loaded again: the swings of Lever's figure 17.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from .base import Rival

if TYPE_CHECKING:
    from ..batches import BatchStage, BatchStageResult


class Wrangler(Rival):
    """Moves waiting tasks off the nodes it distrusts."""

    confidence_min = 0.7
    ageing = 0.5
    #: A node straggles when it ends this much later than the median.
    late = 1.3

    def __init__(self) -> None:
        self._confidence: list[float] = []

    def before(self, stage: BatchStage) -> None:
        """Leave each distrusted node one task per core; deal the others to the trusted ones."""
        distrusted = {node for node, value in enumerate(self._confidence) if value >= self.confidence_min}
        trusted = [node for node in range(len(stage.waiting)) if node not in distrusted]
        if not trusted:
            return
        moved = []
        for node in sorted(distrusted):
            queue = stage.waiting[node]
            while len(queue) > stage.cluster.cores:
                moved.append(queue.pop())
        for number, task in enumerate(moved):
            stage.waiting[trusted[number % len(trusted)]].append(task)

    def after(self, result: BatchStageResult) -> None:
        """Note who was late."""
        usual_ms = median(result.finish_ms)
        late = [float(finish_ms > self.late * usual_ms) for finish_ms in result.finish_ms]
        before = self._confidence or late
        self._confidence = [
            self.ageing * new + (1 - self.ageing) * old for new, old in zip(late, before, strict=True)
        ]  # fmt: skip
