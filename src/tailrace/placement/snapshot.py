"""What has been measured about a running topology, and how it replaces the declared weights of its task graph.

The coordinator builds a Snapshot from the workers' reports; on-line policies call ``measured`` on it. Shuffle edges are
recomputed from operator rates and the routing rule, never from what the present placement happens to carry.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .model import TaskEdge, TaskGraph, TaskVertex
from .traffic import EVEN_GROUPINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .model import Assignment, Node

_US_PER_S = 1e6


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Measurements of one interval; whatever is missing keeps its declared weight.

    ``edges`` gives (tuples/s, bytes/s) by (source task, target task). A worker may report only its largest edges; the
    rest of a stream stands in ``remainder`` by (source operator, target operator) and is shared by unreported edges.
    ``held`` tasks were moved a moment ago and must stay.
    """

    cpu_us_per_tuple: Mapping[str, float] = field(default_factory=dict)
    tuples_in_per_s: Mapping[str, float] = field(default_factory=dict)
    edges: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    remainder: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    node_speed: Mapping[str, float] = field(default_factory=dict)
    assignment: Assignment | None = None
    held: frozenset[str] = frozenset()


def measured(graph: TaskGraph, snapshot: Snapshot | None) -> TaskGraph:
    """Return the graph with measured weights: CPU seconds per second at speed 1, tuples and bytes per second."""
    if snapshot is None:
        return graph
    streams = {(s.src, s.dst): s.grouping for s in graph.streams}
    vertices = _measured_vertices(graph, snapshot) if snapshot.cpu_us_per_tuple else graph.vertices
    edges = _measured_edges(graph, snapshot, streams) if snapshot.edges else graph.edges
    return TaskGraph(graph.name, vertices, edges, graph.streams)


def with_measured_speed(nodes: Sequence[Node], snapshot: Snapshot | None) -> list[Node]:
    """Return the nodes at the speed that was measured, where it was."""
    speeds = snapshot.node_speed if snapshot else {}
    return [replace(node, speed=speeds.get(node.name, node.speed)) for node in nodes]


def _measured_vertices(graph: TaskGraph, snapshot: Snapshot) -> tuple[TaskVertex, ...]:
    """CPU per tuple x rate x speed of the node it ran on; an operator fed only by even groupings uses its mean rate."""
    fed_unevenly = {s.dst for s in graph.streams if s.grouping not in EVEN_GROUPINGS}
    found = []
    for operator, tasks in graph.operators.items():
        rates = [snapshot.tuples_in_per_s.get(task.id, 0.0) for task in tasks]
        if operator not in fed_unevenly:
            rates = [sum(rates) / len(rates)] * len(rates)
        costs = [_cost_us(task.id, snapshot) for task in tasks]
        known = [cost for cost in costs if cost is not None]
        # A task that has seen no tuple yet costs what its siblings cost.
        mean_us = sum(known) / len(known) if known else 0.0
        for task, rate, cost in zip(tasks, rates, costs, strict=True):
            cpu = rate * (mean_us if cost is None else cost) / _US_PER_S
            found.append(replace(task, cpu=cpu))
    return tuple(sorted(found, key=lambda vertex: graph.position[vertex.id]))


def _cost_us(task: str, snapshot: Snapshot) -> float | None:
    cost = snapshot.cpu_us_per_tuple.get(task)
    if cost is None:
        return None
    ran_on = snapshot.assignment.node_of.get(task, "") if snapshot.assignment else ""
    return cost * snapshot.node_speed.get(ran_on, 1.0)


def _measured_edges(
    graph: TaskGraph, snapshot: Snapshot, streams: Mapping[tuple[str, str], str]
) -> tuple[TaskEdge, ...]:
    operator_of = {vertex.id: vertex.operator for vertex in graph.vertices}
    unreported: dict[tuple[str, str], int] = {}
    sent: dict[tuple[str, str], list[float]] = {}
    for edge in graph.edges:
        stream = operator_of[edge.src], operator_of[edge.dst]
        if (edge.src, edge.dst) not in snapshot.edges:
            unreported[stream] = unreported.get(stream, 0) + 1
    filled = []
    for edge in graph.edges:
        stream = operator_of[edge.src], operator_of[edge.dst]
        rest = snapshot.remainder.get(stream, (0.0, 0.0))
        tuples, size = snapshot.edges.get((edge.src, edge.dst)) or (
            rest[0] / unreported[stream],
            rest[1] / unreported[stream],
        )
        filled.append((stream, edge, tuples, size))
        total = sent.setdefault((edge.src, stream[1]), [0.0, 0.0, 0.0])
        total[0] += tuples
        total[1] += size
        total[2] += 1
    found = []
    for stream, edge, tuples, size in filled:
        total = sent[edge.src, stream[1]]
        if streams.get(stream, "") in EVEN_GROUPINGS:
            found.append(TaskEdge(edge.src, edge.dst, total[0] / total[2], total[1] / total[2]))
        else:
            found.append(TaskEdge(edge.src, edge.dst, tuples, size))
    return tuple(found)
