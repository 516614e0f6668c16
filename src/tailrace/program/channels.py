"""How channels are numbered: from the plan alone, so that no two workers need to agree on it.

Workers number their outboxes and inboxes by it, also after tasks have moved. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.topology.plan import Plan, Stage


def channel_bases(plan: Plan) -> list[int]:
    """The first channel number of each edge; a channel is base + sending task x receiving tasks + receiving task."""
    bases, at = [], 0
    for edge in plan.edges:
        bases.append(at)
        at += plan.stages[edge.src_stage].tasks * plan.stages[edge.dst_stage].tasks
    return bases


def handout_channel(plan: Plan, stage: Stage, index: int) -> int:
    """The channel on which a task is given tuples by the owner of its queue; numbered behind those of all edges."""
    pairs = sum(plan.stages[edge.src_stage].tasks * plan.stages[edge.dst_stage].tasks for edge in plan.edges)
    return pairs + sum(each.tasks for each in plan.stages[: stage.id]) + index
