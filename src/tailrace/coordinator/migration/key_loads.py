"""How much of a stage's input each of its key groups gets: what the senders have counted, over the last few looks.

Filled by the coordinator's brain with every report, read by ``hot_keys`` through the rebalancing loop. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.reports import WorkerReport
    from tailrace.topology.plan import Plan

#: What the counts of one look are still worth at the next.
_MEMORY = 0.6
#: Counts below this are forgotten.
_LEAST = 0.01


class KeyLoads:
    """Counts per stage and key group."""

    def __init__(self, plan: Plan) -> None:
        self._stage_of = {edge.id: edge.dst_stage for edge in plan.edges}
        self._counts: dict[int, dict[int, float]] = {}

    def add(self, report: WorkerReport) -> None:
        """Add what a worker's report counts."""
        for row in report.groups:
            counts = self._counts.setdefault(self._stage_of[row.edge], {})
            counts[row.group] = counts.get(row.group, 0.0) + row.tuples

    def shares(self, stage: int) -> dict[int, float]:
        """What part of the stage's input each group gets; empty where nothing was counted."""
        counts = self._counts.get(stage, {})
        total = sum(counts.values())
        return {group: count / total for group, count in counts.items()}

    def age(self) -> None:
        """A look is over: what was counted before it counts for less."""
        self._counts = {
            stage: {group: _MEMORY * count for group, count in counts.items() if _MEMORY * count >= _LEAST}
            for stage, counts in self._counts.items()
        }
