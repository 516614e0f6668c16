"""The text of ``query.explain()``: policies, where each task runs, how workers reach each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.worker.build import Program

    from .brain import CoordinatorBrain


def explain(program: Program, brain: CoordinatorBrain, hosted_by: str) -> str:
    """Describe a query."""
    lines = [f"Topology {program.plan.name!r}, {brain.state}, hosted by {hosted_by}", "", "Policies"]
    for name, value in vars(program.policy).items():
        lines.append(f"  {name:10} {value}")
    lines += ["", "Stages (operators chained with + run in one task)"]
    for stage in program.plan.stages:
        name = " + ".join(spec.name for spec in stage.operators)
        slots = brain.placement[stage.id] if brain.placement else []
        lines.append(f"  {name}: {stage.tasks} task(s) on worker(s) {', '.join(map(str, slots)) or 'not placed yet'}")
        for edge in program.plan.outputs[stage.id]:
            target = program.plan.stages[edge.dst_stage].head.name
            lines.append(f"    {edge.src} -> {target} ({edge.grouping})")
    lines += ["", "Workers"]
    for slot, member in sorted(brain.members.items()):
        peer = member.peer
        within = "ring" if peer.ring else f"Unix socket ({peer.why_no_ring})" if peer.uds else "TCP"
        state = "open" if member.open else "registered" if member.alive else "lost"
        lines.append(
            f"  {slot}: {state}, attempt {member.attempt}, executor {member.register.executor}, host {peer.host}, "
            f"pid {member.register.pid}; within its node: {within}, else TCP"
        )
    return "\n".join(lines)
