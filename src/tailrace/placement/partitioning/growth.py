"""TurboStream's split (section V.C, Algorithm 2): grow one side breadth first from a start task until it has its share.

The placement tries every start task of a consolidated (hence small) graph and keeps the split with the least traffic
across. Side 0 is what was gathered.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .indexed import IndexedGraph


class Bisection(NamedTuple):
    """A way to cut a graph in two: distance from the wanted share, traffic across, side of every task."""

    off: float
    cut: float
    side: list[int]


def grow(graph: IndexedGraph, start: int, target: float, factor: float) -> Bisection:
    """Gather tasks from ``start`` in breadth-first order while each brings the balance nearer to ``target``.

    When the queue runs dry too far from the target, growth goes on at the lowest-numbered task not visited yet. The
    paper does not say in which order neighbours queue up: heaviest traffic first, then the lower number.
    """
    total = sum(graph.weight) or 1.0
    side = [1] * len(graph)
    visited = bytearray(len(graph))
    queue = deque([start])
    visited[start] = 1
    unvisited = iter(range(len(graph)))
    gathered, cut = 0.0, 0.0
    while queue and gathered / total < target:
        task = queue.popleft()
        reached = gathered + graph.weight[task]
        if abs(reached / total - target) < abs(gathered / total - target):
            gathered = reached
            side[task] = 0
            fresh = []
            for u, rate in graph.near[task].items():
                cut += rate if side[u] else -rate
                if not visited[u]:
                    visited[u] = 1
                    fresh.append((-rate, u))
            queue.extend(u for _, u in sorted(fresh))
        if not queue and abs(gathered / total - target) > factor:
            nxt = next((u for u in unvisited if not visited[u]), None)
            if nxt is not None:
                visited[nxt] = 1
                queue.append(nxt)
    return Bisection(abs(gathered / total - target), cut, side)


def best_splits(
    graph: IndexedGraph, target: float, factor: float, starts_max: int = 1_000_000, keep: int = 1
) -> list[Bisection]:
    """Grow from every task, or from ``starts_max`` spread over them; return the ``keep`` best, least traffic first.

    Splits within ``factor`` of the target come first, as printed; if there is none, the nearest to the target wins.
    """
    found: dict[bytes, Bisection] = {}
    for start in range(0, len(graph), max(1, len(graph) // starts_max)):
        split = grow(graph, start, target, factor)
        found.setdefault(bytes(split.side), split)
    ranked = sorted(found.values(), key=lambda split: (max(0.0, split.off - factor), split.cut))
    return ranked[:keep]
