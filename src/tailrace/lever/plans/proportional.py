"""Equation 7 of the paper over all executors: loads in proportion to learned capacity, no classes, no helpers.

It settles in one or two batches where finish times are proportional to load; it follows every disturbance at full
gain, so a single garbage collection costs the next batch as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..capacity import capacity_of, learn_capacity
from ..predict import classify
from .base import LoadAssignment, in_proportion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..observe import BatchRun
    from .base import ExecutorNode, Memory


@dataclass(frozen=True, slots=True)
class ProportionalPlan:
    """Iterative learning control plus equation 7."""

    name: str = "proportional"

    def learn(self, memory: Memory, run: BatchRun) -> Memory:
        """Update every measured executor's capacity."""
        return replace(memory, last=run, capacity=learn_capacity(memory.capacity, run))

    def assign(self, memory: Memory, nodes: Sequence[ExecutorNode], total: float) -> LoadAssignment:
        """Give each executor its part by capacity."""
        loads = in_proportion(capacity_of(nodes, memory.capacity), total)
        return LoadAssignment(loads, classify(memory.last.finish_ms) if memory.last else {})
