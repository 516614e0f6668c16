"""TurboStream's task consolidation (section V.B, Algorithm 1): merge communicating tasks in pairs, level by level.

TurboStream's placement calls it before it splits. Every task takes its heaviest neighbour that is still free; what is
left alone becomes a parent by itself. A limit on a parent's weight is ours: without it a parent can outgrow a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .indexed import IndexedGraph, contract

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

# A level that merges less than this share of the tasks is not worth another one.
_SHRINK_MIN = 0.05


def consolidate_once(
    graph: IndexedGraph, order: Iterable[int] | None = None, weight_max: float = float("inf")
) -> tuple[list[int], int]:
    """Return the parent of every task and the number of parents; ties go to the lower task number.

    One scan for the heaviest free neighbour replaces the printed sort, so a level costs O(tasks + edges).
    """
    parent = [-1] * len(graph)
    parents = 0
    weight = graph.weight
    for v in range(len(graph)) if order is None else order:
        if parent[v] >= 0:
            continue
        room = weight_max - weight[v]
        partner, heaviest = -1, -1.0
        for u, rate in graph.near[v].items():
            if parent[u] < 0 and (rate > heaviest or (rate == heaviest and u < partner)) and weight[u] <= room:
                partner, heaviest = u, rate
        parent[v] = parents
        if partner >= 0:
            parent[partner] = parents
        parents += 1
    return parent, parents


def consolidate(
    graph: IndexedGraph, tasks_max: int, random: Random | None = None, weight_max: float = float("inf")
) -> tuple[list[IndexedGraph], list[list[int]]]:
    """Consolidate until at most ``tasks_max`` parents are left or nothing merges any more.

    Returns the graphs from finest to coarsest and, between each two, the map from task to parent: together the
    paper's relational binary tree. Tasks are visited in their order, or in a random one if ``random`` is given.
    """
    graphs, parents_of = [graph], []
    while len(graphs[-1]) > tasks_max:
        fine = graphs[-1]
        order = None if random is None else random.sample(range(len(fine)), len(fine))
        parent, parents = consolidate_once(fine, order, weight_max)
        if parents > (1 - _SHRINK_MIN) * len(fine):
            break
        graphs.append(contract(fine, parent, parents))
        parents_of.append(parent)
    return graphs, parents_of
