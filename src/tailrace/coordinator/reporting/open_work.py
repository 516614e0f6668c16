"""What keeps a query from ending, in a sentence for its user: open roots, tasks not done, lost workers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.coordinator.brain import CoordinatorBrain

_SHOWN_MAX = 5


def still_open(brain: CoordinatorBrain) -> str:
    """Say what is still open, as far as workers have reported it."""
    if brain.state == "ended":
        return "its tasks have ended"
    stages = brain.program.plan.stages
    open_tasks = [f"{stages[stage].head.name}[{task}]" for stage, task in sorted(brain.tasks_open)]
    parts = [f"{len(open_tasks)} tasks are not done ({_some(open_tasks)})"] if open_tasks else []
    pending = {
        f"{stages[row.stage].head.name}[{row.task}]": row.pending
        for member in brain.members.values()
        for row in member.report.tasks
        if row.pending
    }
    if pending:
        told = _some([f"{count:,} of {name}" for name, count in sorted(pending.items())])
        parts.append(f"{sum(pending.values()):,} roots are not complete ({told})")
    lost = [str(slot) for slot, member in sorted(brain.members.items()) if not member.alive]
    if lost:
        parts.append(f"worker {_some(lost)} is lost")
    return "; ".join(parts) or "nothing was deployed"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN_MAX]) + (f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else "")
