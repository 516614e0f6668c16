"""What goes where at the start of a query: tasks to slots by the placement policy, partitions to source tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.batch import PARTITIONS_MAX
from tailrace.errors import nearest
from tailrace.placement import by_name
from tailrace.placement.model import Node, Stream, TaskEdge, TaskGraph, TaskVertex
from tailrace.receiving.shared import SharedQueueError, check_may_share
from tailrace.topology.plan import make_plan
from tailrace.topology.split import with_partial_keys
from tailrace.worker.build import Program

from .errors import StartError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.config import Policy, Settings
    from tailrace.topology.graph import Topology
    from tailrace.topology.plan import Plan


def plan_of(topology: Topology, policy: Policy) -> Plan:
    """Make the plan of a query; where a key may go to two tasks, counts and reduces become parts and a merge."""
    drawn = with_partial_keys(topology) if policy.routing == "partial_key" else topology
    return make_plan(drawn, chaining=policy.chaining == "on")


def program_of(topology: Topology, policy: Policy, settings: Settings) -> Program:
    """Make what every worker runs; steps that are left to the coordinator begin at their baselines."""
    return Program(plan_of(topology, policy), policy.at_first, settings, policy.switched)


def task_graph(plan: Plan) -> TaskGraph:
    """The plan as placement sees it, with structural weights: nothing has run yet."""
    vertices = [
        TaskVertex(f"{stage.id}:{index}", str(stage.id), index) for stage in plan.stages for index in range(stage.tasks)
    ]
    edges = [
        TaskEdge(f"{edge.src_stage}:{src}", f"{edge.dst_stage}:{dst}")
        for edge in plan.edges
        for src in range(plan.stages[edge.src_stage].tasks)
        for dst in range(plan.stages[edge.dst_stage].tasks)
    ]
    streams = [Stream(str(edge.src_stage), str(edge.dst_stage), edge.grouping.kind) for edge in plan.edges]
    return TaskGraph(plan.name, tuple(vertices), tuple(edges), tuple(streams))


def place_tasks(plan: Plan, policy: str, hosts: Mapping[int, str]) -> list[list[int]]:
    """Give every task a slot; ``hosts`` tells on which node each slot is. Per stage, per task."""
    by_host: dict[str, list[int]] = {}
    for slot in sorted(hosts):
        by_host.setdefault(hosts[slot], []).append(slot)
    nodes = [Node(name=name, workers=len(slots)) for name, slots in by_host.items()]
    graph = task_graph(plan)
    assignment = by_name(policy).place(graph, nodes, None)
    placed: list[list[int]] = [[0] * stage.tasks for stage in plan.stages]
    for vertex in graph.vertices:
        node, worker = assignment.place_of(vertex.id)
        placed[int(vertex.operator)][vertex.index] = by_host[node][worker]
    return placed


def check_sharing(plan: Plan, policy: Policy) -> None:
    """Refuse a shared inbox that was asked for by name where there can be none."""
    heads = {stage.head.name: stage for stage in plan.stages}
    for name in policy.sharing:
        if name not in heads:
            raise SharedQueueError(
                f"A shared inbox was asked for in front of {name!r}; the operators with an inbox are "
                f"{', '.join(repr(each.head.name) for each in plan.stages if not each.is_source)}.",
                nearest(name, heads),
            )
        check_may_share(heads[name], tuple(plan.inputs[heads[name].id]))


def deal_partitions(plan: Plan) -> list[list[Any]]:
    """Number all source partitions and deal each source's to its tasks: number, stage, task, name.

    Numbers begin at 1; 0 is for tuples that hang on no root.
    """
    dealt: list[list[Any]] = []
    for stage in plan.stages:
        if stage.is_source:
            for at, name in enumerate(stage.head.fn.partitions()):
                dealt.append([len(dealt) + 1, stage.id, at % stage.tasks, name])
    if len(dealt) >= PARTITIONS_MAX:
        raise StartError(
            f"The sources of a topology may have {PARTITIONS_MAX - 1} partitions together; found {len(dealt)}.",
            "Read fewer files or topics per query.",
        )
    return dealt
