"""Node-local shuffle: what a placement makes of shuffle streams when senders prefer tasks close to them.

The accounting calls it to predict traffic. A sending task splits evenly over the target's tasks in its own worker; with
``node`` preference, if there are none, over those on its node; if there are none either, over all. Rates downstream
follow: a task that receives twice its even share also sends twice as much.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.errors import ConfigError, nearest

from .model import TaskEdge, TaskGraph
from .traffic import EVEN_GROUPINGS

if TYPE_CHECKING:
    from .model import Assignment

SHUFFLES = ("even", "worker", "node")


def localised(graph: TaskGraph, assignment: Assignment, shuffle: str) -> tuple[TaskGraph, float]:
    """Return the graph as this placement would run it, and the largest ratio of a task's input to its even share.

    Streams grouped ``local`` prefer their worker whatever ``shuffle`` says.
    """
    if shuffle not in SHUFFLES:
        raise ConfigError(f"Expected shuffle among {SHUFFLES}, found {shuffle!r}.", nearest(shuffle, SHUFFLES))
    grouping = {(s.src, s.dst): s.grouping for s in graph.streams}
    if shuffle == "even" and "local" not in grouping.values():
        return graph, 1.0
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
                kind = grouping.get((operator, target), "")
                prefers = _preference(kind, shuffle)
                for edge in _routed(sent, ratio, prefers, assignment):
                    edges.append(edge)
                    real_in[edge.dst] = real_in.get(edge.dst, 0.0) + edge.tuples_per_s
    ratios = {vertex.id: _ratio(vertex.id, real_in, even_in) for vertex in graph.vertices}
    vertices = tuple(replace(vertex, cpu=vertex.cpu * ratios[vertex.id]) for vertex in graph.vertices)
    return TaskGraph(graph.name, vertices, tuple(edges), graph.streams), max(ratios.values(), default=1.0)


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


def _preference(grouping: str, shuffle: str) -> str:
    if grouping in EVEN_GROUPINGS and shuffle != "even":
        return shuffle
    return "worker" if grouping == "local" else "even"


def _routed(edges: list[TaskEdge], ratio: float, prefers: str, assignment: Assignment) -> list[TaskEdge]:
    """Scale one task's edges to one operator by what it really receives and bend them to the preferred targets."""
    src = edges[0].src
    near = edges
    if prefers != "even":
        here = assignment.place_of(src)
        near = [e for e in edges if assignment.place_of(e.dst) == here]
        if not near and prefers == "node":
            near = [e for e in edges if assignment.node_of[e.dst] == here[0]]
        near = near or edges
    # Edges of an even grouping are alike, so n targets for m multiply each one's share by m / n.
    scale = ratio * len(edges) / len(near)
    return [TaskEdge(src, e.dst, e.tuples_per_s * scale, e.bytes_per_s * scale) for e in near]
