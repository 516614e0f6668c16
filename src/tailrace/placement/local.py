"""Node-local shuffle: what a placement makes of shuffle streams when senders prefer tasks close to them.

The accounting calls it to predict traffic. The shares are those of ``routing.near``, which the workers go by too: own
worker first, with ``node`` preference then the own node, then everyone, and no task much over its even share. Rates
downstream follow: a task that receives more than its even share also sends more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.config import Settings
from tailrace.errors import ConfigError, nearest
from tailrace.routing.near import NearEdge, near_rows

from .model import TaskEdge, TaskGraph

if TYPE_CHECKING:
    from tailrace.routing.near import Row, Rule

    from .model import Assignment

SHUFFLES = ("even", "worker", "node")
SKEW_MAX = Settings.local_skew_max
#: How node-local shuffle takes a stream's grouping; any other is left as it is.
_RULES: dict[str, Rule] = {"shuffle": "free", "auto": "free", "detour": "detour", "root": "root", "local": "local"}


def localised(
    graph: TaskGraph, assignment: Assignment, shuffle: str, skew_max: float = SKEW_MAX
) -> tuple[TaskGraph, float]:
    """Return the graph as this placement would run it, and the largest ratio of a task's input to its even share.

    Streams grouped ``local`` prefer their worker whatever ``shuffle`` says.
    """
    if shuffle not in SHUFFLES:
        raise ConfigError(f"Expected shuffle among {SHUFFLES}, found {shuffle!r}.", nearest(shuffle, SHUFFLES))
    grouping = {(s.src, s.dst): s.grouping for s in graph.streams}
    if shuffle == "even" and "local" not in grouping.values():
        return graph, 1.0
    rows = {} if shuffle == "even" else _rows(graph, assignment, shuffle, skew_max)
    outgoing = _outgoing(graph)
    even_in: dict[str, float] = {}
    for edge in graph.edges:
        even_in[edge.dst] = even_in.get(edge.dst, 0.0) + edge.tuples_per_s
    real_in: dict[str, float] = {}
    edges: list[TaskEdge] = []
    for operator in _upstream_first(graph):
        for vertex in graph.operators[operator]:
            ratio = _ratio(vertex.id, real_in, even_in)
            for target, sent in outgoing.get(vertex.id, {}).items():
                stream = operator, target
                if stream in rows:
                    routed = _shared(graph, sent, ratio, target, rows[stream][vertex.index])
                else:
                    routed = _routed(sent, ratio, grouping.get(stream, ""), assignment)
                for edge in routed:
                    edges.append(edge)
                    real_in[edge.dst] = real_in.get(edge.dst, 0.0) + edge.tuples_per_s
    ratios = {vertex.id: _ratio(vertex.id, real_in, even_in) for vertex in graph.vertices}
    vertices = tuple(replace(vertex, cpu=vertex.cpu * ratios[vertex.id]) for vertex in graph.vertices)
    return TaskGraph(graph.name, vertices, tuple(edges), graph.streams), max(ratios.values(), default=1.0)


def _rows(graph: TaskGraph, assignment: Assignment, shuffle: str, skew_max: float) -> dict[tuple[str, str], list[Row]]:
    """The shares of every stream that keeps near, for each of its sending tasks."""
    order = _upstream_first(graph)
    number = {operator: at for at, operator in enumerate(order)}
    nodes = {name: at for at, name in enumerate(sorted(set(assignment.node_of.values())))}
    places = [
        [(nodes[assignment.node_of[task.id]], assignment.worker_of[task.id]) for task in graph.operators[operator]]
        for operator in order
    ]
    edges = [
        NearEdge(at, number[stream.src], number[stream.dst], _RULES.get(stream.grouping, "spread"))
        for at, stream in enumerate(graph.streams)
    ]
    found = near_rows(places, edges, shuffle, skew_max)
    return {graph.streams[at][:2]: rows for at, rows in found.items()}


def _outgoing(graph: TaskGraph) -> dict[str, dict[str, list[TaskEdge]]]:
    """Edges by sending task and target operator."""
    operator_of = {vertex.id: vertex.operator for vertex in graph.vertices}
    found: dict[str, dict[str, list[TaskEdge]]] = {}
    for edge in graph.edges:
        found.setdefault(edge.src, {}).setdefault(operator_of[edge.dst], []).append(edge)
    return found


def _upstream_first(graph: TaskGraph) -> list[str]:
    """Operators in topological order; ``expand`` has refused cycles."""
    waiting = {operator: sum(s.dst == operator for s in graph.streams) for operator in graph.operators}
    ready = [operator for operator, count in waiting.items() if not count]
    for operator in ready:
        for stream in graph.streams:
            if stream.src == operator:
                waiting[stream.dst] -= 1
                if not waiting[stream.dst]:
                    ready.append(stream.dst)
    return ready


def _ratio(task: str, real_in: dict[str, float], even_in: dict[str, float]) -> float:
    """Input against the even share; a source receives nothing and emits as declared."""
    return real_in.get(task, 0.0) / even_in[task] if even_in.get(task) else 1.0


def _shared(graph: TaskGraph, edges: list[TaskEdge], ratio: float, target: str, row: Row) -> list[TaskEdge]:
    """Give one task's output to one operator by shares."""
    tuples = ratio * sum(edge.tuples_per_s for edge in edges)
    size = ratio * sum(edge.bytes_per_s for edge in edges)
    src = edges[0].src
    return [
        TaskEdge(src, task.id, tuples * row[task.index], size * row[task.index])
        for task in graph.operators[target]
        if row[task.index]
    ]


def _routed(edges: list[TaskEdge], ratio: float, grouping: str, assignment: Assignment) -> list[TaskEdge]:
    """Scale one task's edges to one operator by what it really receives; ``local`` ones stay in their worker."""
    src, near = edges[0].src, edges
    if grouping == "local":
        here = assignment.place_of(src)
        near = [e for e in edges if assignment.place_of(e.dst) == here] or edges
    # Edges of an even grouping are alike, so n targets for m multiply each one's share by m / n.
    scale = ratio * len(edges) / len(near)
    return [TaskEdge(src, e.dst, e.tuples_per_s * scale, e.bytes_per_s * scale) for e in near]
