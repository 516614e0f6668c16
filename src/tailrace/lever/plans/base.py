"""What every plan takes and gives: immutable memory in, loads per executor out.

A plan is pure; the planner keeps its memory between batches, the simulator and ``explain`` run the same code.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..observe import BatchRun
    from ..predict import NodeClass


@dataclass(frozen=True, slots=True)
class ExecutorNode:
    """An executor that can be given load now."""

    executor: str
    cores: int = 1


@dataclass(frozen=True, slots=True)
class Memory:
    """What a plan remembers of one query."""

    capacity: Mapping[str, float] = field(default_factory=dict)
    """Units per millisecond, as the plan estimates them."""
    last: BatchRun | None = None
    surprise: Mapping[str, float] = field(default_factory=dict)
    """Logarithm of measured over expected rate in the last batch (damped plan only)."""

    def without_all_but(self, executors: Iterable[str]) -> Memory:
        """Forget executors that are gone: Spark never gives an id twice."""
        alive = set(executors)
        kept = {executor: value for executor, value in self.capacity.items() if executor in alive}
        surprise = {executor: value for executor, value in self.surprise.items() if executor in alive}
        return replace(self, capacity=kept, surprise=surprise)


@dataclass(frozen=True, slots=True)
class LoadAssignment:
    """How much of the input each executor gets; the loads sum to the input."""

    loads: Mapping[str, float]
    classes: Mapping[str, NodeClass] = field(default_factory=dict)


class BatchPlan(Protocol):
    """One way to learn from a batch and to split the next."""

    @property
    def name(self) -> str:
        """The name to choose it by."""

    def learn(self, memory: Memory, run: BatchRun) -> Memory:
        """Take in how a batch went."""

    def assign(self, memory: Memory, nodes: Sequence[ExecutorNode], total: float) -> LoadAssignment:
        """Split ``total`` units over ``nodes``."""


def in_proportion(weights: Mapping[str, float], total: float) -> dict[str, float]:
    """Equation 7: L_i = (sum L / sum C) * C_i."""
    scale = total / sum(weights.values())
    return {executor: weight * scale for executor, weight in weights.items()}
