"""Runs recorded batches through a plan and estimates what pre-scheduling would have gained, or says why it cannot.

Called by the report. Pure. Each executor is taken to need time in proportion to its load, at the rate it showed in that
very batch. That ignores fixed costs per task, and it cannot know how a dynamic schedule would have filled the gaps.
Where the model does not hold, a figure from it would be nonsense of any size, so none is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..observe import BatchRun, NodeRun
from ..plans import BatchPlan, ExecutorNode, Memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .tasks import StageAttempt

RATE_SPREAD_MAX = 20.0
"""Executors of one stage whose rates lie further apart do not differ in speed: time does not follow the input there."""
SLOWDOWN_MAX = 2.0
"""A plan that would take longer than this many times what was recorded was taught by stages unlike those it split."""
STAGES_MIN = 2


@dataclass(frozen=True, slots=True)
class Replayed:
    """One recorded batch, as it was and as the plan would have split it."""

    stage: int
    recorded_ms: float
    planned_ms: float
    ideal_ms: float
    """With perfect knowledge of that batch's rates."""
    rate_spread: float
    """Highest over lowest rate of the executors."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What all batches would have taken; ``reason`` says why there is none."""

    recorded_ms: float
    planned_ms: float
    ideal_ms: float
    reason: str = ""


def replay(stages: Sequence[StageAttempt], plan: BatchPlan) -> list[Replayed]:
    """Take stages of one recurring job in order; the plan sees each only after it has split it."""
    memory = Memory()
    found = []
    for number, stage in enumerate(stages):
        run = stage.run(number)
        rates = {node.executor: node.load / node.finish_ms for node in run.nodes}
        total = sum(run.loads.values())
        memory = memory.without_all_but(rates)
        loads = plan.assign(memory, [ExecutorNode(executor) for executor in rates], total).loads
        planned = tuple(NodeRun(e, load, max(1.0, load / rates[e])) for e, load in loads.items() if load > 0)
        planned_run = BatchRun(number, planned)
        spread = max(rates.values()) / min(rates.values())
        ideal_ms = total / sum(rates.values())
        found.append(Replayed(stage.stage, run.makespan_ms, planned_run.makespan_ms, ideal_ms, spread))
        memory = plan.learn(memory, planned_run)
    return found


def estimate(replayed: Sequence[Replayed]) -> Estimate:
    """Add the batches up, and say why that is no estimate where it is none."""
    recorded_ms = sum(each.recorded_ms for each in replayed)
    planned_ms = sum(each.planned_ms for each in replayed)
    ideal_ms = sum(each.ideal_ms for each in replayed)
    return Estimate(recorded_ms, planned_ms, ideal_ms, _why_none(replayed, planned_ms, recorded_ms))


def _why_none(replayed: Sequence[Replayed], planned_ms: float, recorded_ms: float) -> str:
    if not replayed:
        return "no stage ran on two executors or more with enough tasks"
    if len(replayed) < STAGES_MIN:
        return "a plan learns from the stage before, and there is one stage"
    widest = max(replayed, key=lambda each: each.rate_spread)
    if widest.rate_spread > RATE_SPREAD_MAX:
        return (
            f"in stage {widest.stage} one executor read {widest.rate_spread:,.0f} times as much in the same time as "
            f"another, so time does not follow the input"
        )
    if planned_ms > SLOWDOWN_MAX * recorded_ms:
        return "these stages are not alike, so the rates of one say nothing about the next"
    return ""


def recurring(stages: Sequence[StageAttempt]) -> dict[str, list[StageAttempt]]:
    """Group stages that repeat: per streaming query the reading stages of its batches, else the whole application.

    The first stage of a micro-batch is the one that reads the source, and the only one that is ever planned.
    """
    streaming = [stage for stage in stages if stage.query]
    if not streaming:
        return {"application": list(stages)}
    groups: dict[str, list[StageAttempt]] = {}
    seen: set[tuple[str, int]] = set()
    for stage in streaming:
        if (stage.query, stage.batch) not in seen:
            seen.add((stage.query, stage.batch))
            groups.setdefault(stage.query, []).append(stage)
    return groups
