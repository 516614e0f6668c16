"""The baseline beside the plans: every core gets the same, pinned like the others, whatever was seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .base import LoadAssignment, in_proportion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..observe import BatchRun
    from .base import ExecutorNode, Memory


@dataclass(frozen=True, slots=True)
class EvenPlan:
    """Equal shares per core. It loses wherever executors differ."""

    name: str = "even"

    def learn(self, memory: Memory, run: BatchRun) -> Memory:
        """Remember the rates, for the status only."""
        rates = {node.executor: node.load / node.finish_ms for node in run.nodes}
        return replace(memory, last=run, capacity={**memory.capacity, **rates})

    def assign(self, memory: Memory, nodes: Sequence[ExecutorNode], total: float) -> LoadAssignment:
        """Split by cores."""
        del memory
        return LoadAssignment(in_proportion({node.executor: float(node.cores) for node in nodes}, total))
