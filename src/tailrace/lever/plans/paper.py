"""The paper's plan: predicted stragglers hand over load to the r fasters with the largest capacity (section 3.4).

Changed against the text: several stragglers are served together instead of one after the other, because the later one
would find fuller helpers and two equal stragglers would get unequal shares; amounts are clamped, so that nobody hands
over more than it has and no helper loses load. The parts can be switched off from the last to the first, as in
section 5.7. It loses to the proportional plan with few executors: the median group never moves and the quartiles name a
straggler even when all are level, so shares keep swinging.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from ..capacity import capacity_of, learn_capacity
from ..predict import NodeClass, classify, degradation, transition
from .base import LoadAssignment, in_proportion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..observe import BatchRun
    from .base import ExecutorNode, Memory

HELPERS = 4
"""The paper finds no gain worth having beyond four."""


@dataclass(frozen=True, slots=True)
class LeverPlan:
    """Prediction (IPS), + capacity (ILC), + capacity-aware reassignment (CADR)."""

    helpers: int = HELPERS
    capacity: bool = True
    reassignment: bool = True
    name: str = "lever"

    def learn(self, memory: Memory, run: BatchRun) -> Memory:
        """Update every measured executor's capacity."""
        return replace(memory, last=run, capacity=learn_capacity(memory.capacity, run))

    def assign(self, memory: Memory, nodes: Sequence[ExecutorNode], total: float) -> LoadAssignment:
        """Start from the last batch's loads at the new input rate and relieve the predicted stragglers."""
        if memory.last is None:
            return LoadAssignment(in_proportion({node.executor: float(node.cores) for node in nodes}, total))
        loads = _carried_over(memory.last, nodes, total)
        classes = _predicted(memory.last, loads)
        capacity = capacity_of(nodes, memory.capacity)
        stragglers = [executor for executor, found in classes.items() if found is NodeClass.STRAGGLER]
        helpers = _helpers(classes, capacity, self.helpers)
        if stragglers and helpers:
            surplus = (
                _surplus_by_capacity(stragglers, helpers, loads, capacity)
                if self.capacity
                else _surplus_by_time(stragglers, memory.last.finish_ms, loads)
            )
            room = _room(stragglers, helpers, loads, capacity) if self.reassignment else dict.fromkeys(helpers, 1.0)
            _hand_over(loads, surplus, room, at_most_room=self.reassignment)
        return LoadAssignment(loads, classes)


def _carried_over(last: BatchRun, nodes: Sequence[ExecutorNode], total: float) -> dict[str, float]:
    per_core = [last.loads[node.executor] / node.cores for node in nodes if node.executor in last.loads]
    typical = median(per_core) if per_core else 1.0
    return in_proportion({node.executor: last.loads.get(node.executor, typical * node.cores) for node in nodes}, total)


def _predicted(last: BatchRun, loads: Mapping[str, float]) -> dict[str, NodeClass]:
    seen_ms = {executor: value for executor, value in last.finish_ms.items() if executor in loads}
    if not seen_ms:
        return {}
    initial = classify(seen_ms)
    by = degradation(seen_ms, initial)
    return {
        executor: transition(found, loads[executor] / last.loads[executor], by) for executor, found in initial.items()
    }


def _helpers(classes: Mapping[str, NodeClass], capacity: Mapping[str, float], wanted: int) -> list[str]:
    fasters = sorted((e for e, found in classes.items() if found is NodeClass.FASTER), key=lambda e: -capacity[e])
    if not wanted or not fasters:
        return []
    least = capacity[fasters[min(wanted, len(fasters)) - 1]]
    return [executor for executor in fasters if capacity[executor] >= least]


def _level(members: Sequence[str], loads: Mapping[str, float], capacity: Mapping[str, float]) -> float:
    return sum(loads[e] for e in members) / sum(capacity[e] for e in members)


def _surplus_by_capacity(
    stragglers: Sequence[str], helpers: Sequence[str], loads: Mapping[str, float], capacity: Mapping[str, float]
) -> dict[str, float]:
    level = _level([*stragglers, *helpers], loads, capacity)
    return {executor: max(0.0, loads[executor] - level * capacity[executor]) for executor in stragglers}


def _surplus_by_time(
    stragglers: Sequence[str], finish_ms: Mapping[str, float], loads: Mapping[str, float]
) -> dict[str, float]:
    ideal_ms = median(finish_ms.values())
    return {executor: loads[executor] * max(0.0, 1 - ideal_ms / finish_ms[executor]) for executor in stragglers}


def _room(
    stragglers: Sequence[str], helpers: Sequence[str], loads: Mapping[str, float], capacity: Mapping[str, float]
) -> dict[str, float]:
    """Equation 9: what brings each helper to the common level."""
    level = _level([*stragglers, *helpers], loads, capacity)
    return {executor: max(0.0, level * capacity[executor] - loads[executor]) for executor in helpers}


def _hand_over(
    loads: dict[str, float], surplus: Mapping[str, float], room: Mapping[str, float], *, at_most_room: bool
) -> None:
    offered, wanted = sum(surplus.values()), sum(room.values())
    moved = min(offered, wanted) if at_most_room else offered
    if moved <= 0 or wanted <= 0:
        return
    for executor, amount in surplus.items():
        loads[executor] = max(0.0, loads[executor] - moved * amount / offered)
    for executor, amount in room.items():
        loads[executor] += moved * amount / wanted
