"""A small model of a cluster that runs batches, so that plans can be compared without one.

Called by the tests and the sweep over helpers. Pure: the random source is passed in. A node needs
``overhead_ms`` plus load over speed; the plans themselves are the ones the real runtime uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .observe import BatchRun, NodeRun
from .plans.base import ExecutorNode, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from .plans.base import BatchPlan


@dataclass(frozen=True, slots=True)
class SimulatedBatch:
    """One simulated batch: its input and the speed of each executor in units per millisecond."""

    total: float
    speeds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """What a plan made of a batch."""

    loads: Mapping[str, float]
    makespan_ms: float
    ideal_ms: float
    """The makespan with perfect knowledge."""


def simulate(
    plan: BatchPlan,
    batches: Sequence[SimulatedBatch],
    *,
    overhead_ms: float = 0.0,
    noise: float = 0.0,
    random: Random | None = None,
) -> list[PlanOutcome]:
    """Run batches one after the other through a plan; ``noise`` is the relative deviation of finish times."""
    memory = Memory()
    outcomes = []
    for index, batch in enumerate(batches):
        nodes = [ExecutorNode(executor) for executor in batch.speeds]
        memory = memory.without_all_but(batch.speeds)
        loads = plan.assign(memory, nodes, batch.total).loads
        factor: Callable[[], float] = (lambda: max(0.2, random.gauss(1.0, noise))) if random else (lambda: 1.0)
        run = BatchRun(
            index,
            tuple(
                NodeRun(executor, load, overhead_ms + factor() * load / batch.speeds[executor])
                for executor, load in loads.items()
                if load > 0
            ),
        )
        ideal_ms = overhead_ms + batch.total / sum(batch.speeds.values())
        outcomes.append(PlanOutcome(dict(loads), run.makespan_ms, ideal_ms))
        memory = plan.learn(memory, run)
    return outcomes


def batches_to_settle(outcomes: Sequence[PlanOutcome], *, within: float = 1.25) -> int:
    """How many batches pass until every later one is within a factor of the ideal; their number if none settles."""
    late = [index for index, outcome in enumerate(outcomes) if outcome.makespan_ms > within * outcome.ideal_ms]
    return late[-1] + 1 if late else 0
