"""A plan as placement sees it, and the way back: stages to a task graph, slots to nodes with workers.

Used where a query is placed, where its traffic is predicted and where it is placed again. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.placement.model import Assignment, Node, OperatorEdge, TaskEdge, TaskGraph, TaskVertex
from tailrace.placement.traffic import split
from tailrace.routing import near_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.program.program import Program
    from tailrace.topology.plan import Plan, StageEdge

#: How placement calls the ways in which the runtime carries a shuffle out.
_CARRIED_OUT = {"root": "root", "detour": "detour", "spread": "balanced"}


def task_id(stage: int, task: int) -> str:
    """The name of a task in task graphs of running queries."""
    return f"{stage}:{task}"


def grouping_of(program: Program, edge: StageEdge) -> str:
    """How an edge's tuples find their tasks, as traffic is predicted."""
    policy, kind = program.policy, edge.grouping.kind
    rule = near_rule(
        edge,
        program.plan.stages[edge.dst_stage],
        tracked=policy.tracked,
        balanced=program.balances,
        adaptive=policy.replay == "adaptive",
    )
    return _CARRIED_OUT.get(rule, kind) if kind in {"auto", "shuffle", "local"} else kind


def task_graph(program: Program) -> TaskGraph:
    """The graph with structural weights: every source task emits one tuple, every task passes on what it gets."""
    plan = program.plan
    inputs = [[float(stage.is_source)] * stage.tasks for stage in plan.stages]
    sent: dict[tuple[int, int], dict[tuple[int, int], float]] = {}
    streams: dict[tuple[int, int], str] = {}
    for edge in sorted(plan.edges, key=lambda each: each.src_stage):  # stages are numbered upstream first
        ends = edge.src_stage, edge.dst_stage
        streams.setdefault(ends, grouping_of(program, edge))  # of several edges between two stages the first counts
        pairs = sent.setdefault(ends, {})
        for src, dst, tuples in split(inputs[ends[0]], plan.stages[ends[1]].tasks, edge.grouping.kind):
            pairs[src, dst] = pairs.get((src, dst), 0.0) + tuples
            inputs[ends[1]][dst] += tuples
    return TaskGraph(
        plan.name,
        tuple(
            TaskVertex(task_id(stage.id, task), str(stage.id), task, inputs[stage.id][task])
            for stage in plan.stages
            for task in range(stage.tasks)
        ),
        tuple(
            TaskEdge(task_id(ends[0], src), task_id(ends[1], dst), tuples, tuples)
            for ends, pairs in sent.items()
            for (src, dst), tuples in pairs.items()
        ),
        tuple(OperatorEdge(str(src), str(dst), kind) for (src, dst), kind in streams.items()),
    )


def slots_by_host(hosts: Mapping[int, str]) -> dict[str, list[int]]:
    """The slots of each node, in order; a slot's place in its list is its worker number on the node."""
    found: dict[str, list[int]] = {}
    for slot in sorted(hosts):
        found.setdefault(hosts[slot], []).append(slot)
    return found


def nodes_of(hosts: Mapping[int, str]) -> list[Node]:
    """The nodes of a query with as many workers as they have slots."""
    return [Node(name=name, workers=len(slots)) for name, slots in slots_by_host(hosts).items()]


def assignment_of(placement: Sequence[Sequence[int]], hosts: Mapping[int, str]) -> Assignment:
    """A placement by slots as one by nodes and workers."""
    worker_of = {slot: at for slots in slots_by_host(hosts).values() for at, slot in enumerate(slots)}
    slots = {task_id(stage, task): slot for stage, row in enumerate(placement) for task, slot in enumerate(row)}
    return Assignment(
        {task: hosts[slot] for task, slot in slots.items()}, {task: worker_of[slot] for task, slot in slots.items()}
    )


def placement_of(plan: Plan, assignment: Assignment, hosts: Mapping[int, str]) -> list[list[int]]:
    """An assignment to nodes and workers as slots, per stage and task."""
    slots = slots_by_host(hosts)
    found: list[list[int]] = []
    for stage in plan.stages:
        places = [assignment.place_of(task_id(stage.id, task)) for task in range(stage.tasks)]
        found.append([slots[node][worker] for node, worker in places])
    return found
