"""Task graphs with numbers instead of names, as the partitioning algorithms work on them.

TurboStream, METIS, auto and the accounting build one from a TaskGraph; consolidation and bisection cut smaller ones out
of it. Both directions of an edge are merged: a cut does not care who sends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import Node, TaskGraph


@dataclass(frozen=True)
class IndexedGraph:
    """Vertex weights (CPU) and, for each vertex, its neighbours with the traffic between the two."""

    weight: list[float]
    near: list[dict[int, float]]

    def __len__(self) -> int:
        return len(self.weight)


def indexed(graph: TaskGraph, traffic: str = "bytes") -> IndexedGraph:
    """Give tasks their numbers in graph order; ``traffic`` is ``bytes`` or ``tuples`` per second.

    Where no task has any load (nothing has flowed yet) each counts as one, so that an idle topology is spread too.
    """
    position = graph.position
    near: list[dict[int, float]] = [{} for _ in graph.vertices]
    for src, dst, tuples_per_s, bytes_per_s in graph.edges:
        i, j = position[src], position[dst]
        if i != j:
            rate = bytes_per_s if traffic == "bytes" else tuples_per_s
            near[i][j] = near[j][i] = near[i].get(j, 0.0) + rate
    weight = [vertex.cpu for vertex in graph.vertices]
    return IndexedGraph(weight if any(weight) else [1.0] * len(weight), near)


def contract(graph: IndexedGraph, parent: Sequence[int], parents: int) -> IndexedGraph:
    """Merge the vertices that share a parent; traffic inside a parent disappears."""
    weight = [0.0] * parents
    near: list[dict[int, float]] = [{} for _ in range(parents)]
    for v, load in enumerate(graph.weight):
        p = parent[v]
        weight[p] += load
        into = near[p]
        for u, rate in graph.near[v].items():
            q = parent[u]
            if q != p:
                into[q] = into.get(q, 0.0) + rate
    return IndexedGraph(weight, near)


def induced(graph: IndexedGraph, members: Sequence[int]) -> IndexedGraph:
    """Cut out the sub-graph of ``members``, renumbered in their order."""
    inside = {v: i for i, v in enumerate(members)}
    near = [{inside[u]: rate for u, rate in graph.near[v].items() if u in inside} for v in members]
    return IndexedGraph([graph.weight[v] for v in members], near)


def cut_of(graph: IndexedGraph, part: Sequence[int]) -> float:
    """Traffic between different parts."""
    crossing = 0.0
    for v, near in enumerate(graph.near):
        at = part[v]
        crossing += sum(rate for u, rate in near.items() if u > v and part[u] != at)
    return crossing


def loads_of(graph: IndexedGraph, part: Sequence[int], parts: int) -> list[float]:
    """Vertex weight in each part."""
    loads = [0.0] * parts
    for at, load in zip(part, graph.weight, strict=True):
        loads[at] += load
    return loads


def load_limits(graph: IndexedGraph, nodes: Sequence[Node], imbalance_max: float) -> list[float]:
    """Most load each node may carry: its share by capacity x (1 + imbalance_max)."""
    capacity = sum(node.capacity for node in nodes)
    return [sum(graph.weight) * node.capacity / capacity * (1 + imbalance_max) for node in nodes]
