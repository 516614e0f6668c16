"""The text of ``query.explain()``: policies, where each task runs, how workers reach each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.coordinator.reporting.durability import explained_durability
from tailrace.coordinator.reporting.stuck import explained
from tailrace.receiving.shared import shares
from tailrace.topology.contracts import delivery_of

if TYPE_CHECKING:
    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.program.program import Program
    from tailrace.protocol import Peer


class Explained(str):
    """A text that a shell shows as it reads, not with its line ends escaped."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def explain(program: Program, brain: CoordinatorBrain, hosted_by: str) -> str:
    """Describe a query."""
    lines = [f"Topology {program.plan.name!r}, {brain.state}, hosted by {hosted_by}", "", "Policies"]
    for name, value in vars(program.policy).items():
        lines.append(f"  {name:10} {_policy(brain, name, value)}")
    lines += ["", "Stages (operators chained with + run in one task)"]
    for stage in program.plan.stages:
        name = " + ".join(spec.name for spec in stage.operators)
        slots = brain.placement[stage.id] if brain.placement else []
        lines.append(f"  {name}: {stage.tasks} task(s) on worker(s) {', '.join(map(str, slots)) or 'not placed yet'}")
        for edge in program.plan.outputs[stage.id]:
            target = program.plan.stages[edge.dst_stage].head.name
            lines.append(f"    {edge.src} -> {target} ({edge.grouping})")
    lines += _sinks(program)
    lines += _shared_queues(program, brain)
    lines += _decisions(brain)
    lines += explained_durability(brain)
    lines += explained(brain.members)
    if brain.lost_state.tasks:
        lines += ["", f"State lost ({brain.lost_state.tasks} tasks)", *(f"  {text}" for text in brain.lost_state.told)]
    lines += ["", "Workers"]
    for slot, member in sorted(brain.members.items()):
        peer = member.peer
        within = _within(program, peer)
        gone = "ended" if brain.state == "ended" and brain.error is None else "lost"
        state = "open" if member.open else "registered" if member.alive else gone
        lines.append(
            f"  {slot}: {state}, attempt {member.attempt}, executor {member.register.executor}, host {peer.host}, "
            f"pid {member.register.pid}; within its node: {within}, else TCP"
        )
    return "\n".join(lines)


def _sinks(program: Program) -> list[str]:
    """What readers of each sink get when something is lost."""
    sinks = [spec for stage in program.plan.stages for spec in stage.operators if spec.kind == "sink"]
    meanings = {
        "at_least_once": "what was written before a loss may come again",
        "idempotent": "what comes again has no effect",
        "transactional": "each value once, with the epochs of the checkpoint"
        if program.durable
        else "each value once, when the query ends; there is no checkpoint",
    }
    kinds = [(spec.name, delivery_of(spec.fn, durable=program.durable)) for spec in sinks]
    found = [f"  {name}: {kind.replace('_', ' ')} ({meanings[kind]})" for name, kind in kinds]
    return ["", "Sinks", *found] if found else []


def _policy(brain: CoordinatorBrain, step: str, value: str) -> str:
    """A step's policy; where it is left to the coordinator, what it is at present."""
    return f"auto, now {getattr(brain.autopilot.present, step)}" if step in brain.autopilot.switched else value


def _shared_queues(program: Program, brain: CoordinatorBrain) -> list[str]:
    """Whose tuples wait in one queue, and at which worker."""
    found = []
    present = brain.autopilot.present.inbox if "inbox" in brain.autopilot.switched else program.policy.inbox
    for stage in program.plan.stages if brain.placement else ():
        if not shares(stage, program.plan.inputs[stage.id], present, program.policy.sharing):
            continue
        slots = brain.placement[stage.id]
        by_owner: dict[int, list[int]] = {}
        for task, owner in enumerate(brain.queues.get(stage.id, slots)):
            by_owner.setdefault(owner, []).append(task)
        for owner, tasks in sorted(by_owner.items()):
            workers = sorted({slots[task] for task in tasks})
            found.append(
                f"  {stage.head.name}: task(s) {', '.join(map(str, tasks))} of worker(s) "
                f"{', '.join(map(str, workers))} take from one queue at worker {owner}"
            )
    return ["", "Shared queues", *found] if found else []


def _decisions(brain: CoordinatorBrain) -> list[str]:
    """What policies decide at run time, and why."""
    found = [
        f"  {row['edge']} ({row['routing']}): {', '.join(f'{weight:.3f}' for weight in row['weights'])}; {row['why']}"
        for row in brain.balancing.rows()
    ]
    if found:
        found = ["", "Weights of tasks", *found]
    if auto := brain.autopilot.row():
        found = ["", "Chosen at run time", f"  {auto['technique']}: {auto['why']}", *found]
    if (row := brain.rebalancing.row()) is not None:
        found += ["", "Rebalancing", f"  {row['policy']}: {row['decision']}; {row['why']}"]
    moves = brain.operations.rows()
    if moves:
        found += ["", "Moves"]
    for row in moves:
        told = f"{row['state']} after {row['pause_ms']:,.0f} ms" + (f": {row['reason']}" if row["reason"] else "")
        found.append(f"  {', '.join(row['moves'])}: {told}; why: {row['why']}")
    late = [row for row in (brain.book.recent[-1]["tasks"] if brain.book.recent else []) if "replayTimeout_ms" in row]
    if late:
        found += ["", "Sent again when late"]
    for row in late:
        found.append(f"  {' + '.join(row['operators'])}[{row['task']}]: after {row['replayTimeout_ms']:,.1f} ms")
    return found


def _within(program: Program, peer: Peer) -> str:
    """How others on a worker's node reach it, and why not by the ring."""
    if peer.ring:
        return "ring"
    way = "Unix socket" if peer.uds and program.settings.transport != "tcp" else "TCP"
    return f"{way} ({peer.why_no_ring})" if peer.why_no_ring else way
