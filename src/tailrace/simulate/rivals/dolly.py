"""Dolly: every task is cloned once from the start, the first clone counts; a second stage waits up to omega = 200 ms.

It needs no detection, and loses where cores are busy: twice the work, and half of it away from its data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import Rival

if TYPE_CHECKING:
    from ..batches import BatchStage


class Dolly(Rival):
    """Two clones of each task, on nodes half of the cluster apart."""

    between_ms = 200.0

    def before(self, stage: BatchStage) -> None:
        """Queue each task on a second node too, in turn with that node's own."""
        nodes = len(stage.waiting)
        own = [list(queue) for queue in stage.waiting]
        for node, queue in enumerate(stage.waiting):
            guests = own[(node + nodes // 2) % nodes]
            queue.clear()
            for index in range(max(len(own[node]), len(guests))):
                queue.extend([*own[node][index : index + 1], *guests[index : index + 1]])
