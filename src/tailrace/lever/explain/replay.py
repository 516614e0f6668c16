"""Runs recorded batches through a plan and estimates what pre-scheduling would have gained.

Called by the report. Pure. Each executor is taken to need time in proportion to its load, at the rate it showed in that
very batch. That ignores fixed costs per task, and it cannot know how a dynamic schedule would have filled the gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..observe import BatchRun, NodeRun
from ..plans import Memory, Node, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .tasks import Stage


@dataclass(frozen=True, slots=True)
class Replayed:
    """One recorded batch, as it was and as the plan would have split it."""

    stage: int
    recorded_ms: float
    planned_ms: float
    ideal_ms: float
    """With perfect knowledge of that batch's rates."""


def replay(stages: Sequence[Stage], plan: Plan) -> list[Replayed]:
    """Take stages of one recurring job in order; the plan sees each only after it has split it."""
    memory = Memory()
    found = []
    for number, stage in enumerate(stages):
        run = stage.run(number)
        rates = {node.executor: node.load / node.finish_ms for node in run.nodes}
        total = sum(run.loads.values())
        memory = memory.without_all_but(rates)
        loads = plan.assign(memory, [Node(executor) for executor in rates], total).loads
        planned = tuple(NodeRun(e, load, max(1.0, load / rates[e])) for e, load in loads.items() if load > 0)
        planned_run = BatchRun(number, planned)
        found.append(Replayed(stage.stage, run.makespan_ms, planned_run.makespan_ms, total / sum(rates.values())))
        memory = plan.learn(memory, planned_run)
    return found


def recurring(stages: Sequence[Stage]) -> dict[str, list[Stage]]:
    """Group stages that repeat: per streaming query the reading stages of its batches, else the whole application.

    The first stage of a micro-batch is the one that reads the source, and the only one that is ever planned.
    """
    streaming = [stage for stage in stages if stage.query]
    if not streaming:
        return {"application": list(stages)}
    groups: dict[str, list[Stage]] = {}
    seen: set[tuple[str, int]] = set()
    for stage in streaming:
        if (stage.query, stage.batch) not in seen:
            seen.add((stage.query, stage.batch))
            groups.setdefault(stage.query, []).append(stage)
    return groups
