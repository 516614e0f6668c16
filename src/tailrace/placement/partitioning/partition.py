"""Recursive bisection over nodes: consolidate, split by breadth-first growth, unfold with refinement, go on by halves.

TurboStream's policy calls ``partition``. Each half gets nodes in proportion to its load; a graph that is to lie on one
node is done. The consolidated graph has a bounded number of tasks, so trying every start task costs no more than
reading the edges a few times: O((E + N log N) log K) in all, against the paper's O(N^3).
"""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from .consolidate import consolidate
from .growth import best_splits
from .indexed import induced
from .refine import refine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .indexed import IndexedGraph

    # Sub-graph, limits and capacities of its nodes -> side of every vertex.
    Halve = Callable[[IndexedGraph, Sequence[float], Sequence[float]], list[int]]

# A parent may weigh this share of the lighter side, so that growth can still hit its target.
_PARENT_SHARE_MAX = 0.25


class Effort(NamedTuple):
    """How hard to look for a good split."""

    # Start tasks that are grown from; the paper tries all of them.
    starts_max: int
    # Grown splits that are refined before the best is unfolded.
    splits_kept: int
    # Passes of a refinement, and moves without gain that end one.
    passes: int
    patience: int


THOROUGH = Effort(starts_max=1_000_000, splits_kept=6, passes=8, patience=150)
QUICK = Effort(starts_max=4, splits_kept=1, passes=3, patience=12)


def bisect(
    graph: IndexedGraph,
    aim: tuple[float, float, float],
    tasks_max: int,
    random: Random | None = None,
    effort: Effort = THOROUGH,
) -> list[int]:
    """Cut ``graph`` in two with little traffic across; ``aim`` is the share of side 0 and the bounds of its weight."""
    target, low, high = aim
    total = sum(graph.weight)
    parent_max = max(_PARENT_SHARE_MAX * total * min(target, 1 - target), max(graph.weight, default=0.0))
    graphs, parents_of = consolidate(graph, tasks_max, random, parent_max)
    factor = (high - low) / (2 * total) if total else 0.0
    coarse = graphs[-1]
    best: tuple[float, float, list[int]] | None = None
    for split in best_splits(coarse, target, factor, effort.starts_max, effort.splits_kept):
        side = list(split.side)
        refine(coarse, side, low, high, effort.passes, effort.patience)
        key = (*_judge(coarse, side, low, high), side)
        if best is None or key[:2] < best[:2]:
            best = key
    side = best[2] if best else []
    for fine, parent in zip(reversed(graphs[:-1]), reversed(parents_of), strict=True):
        side = [side[p] for p in parent]
        refine(fine, side, low, high, effort.passes, effort.patience)
    return side


def _judge(graph: IndexedGraph, side: Sequence[int], low: float, high: float) -> tuple[float, float]:
    zero = sum(w for w, s in zip(graph.weight, side, strict=True) if not s)
    cut = sum(r for v, near in enumerate(graph.near) if not side[v] for u, r in near.items() if side[u])
    return max(0.0, low - zero, zero - high), cut


def partition(graph: IndexedGraph, limits: Sequence[float], capacities: Sequence[float], halve: Halve) -> list[int]:
    """Give every vertex a node index, halving graph and nodes together until each part has one node."""
    part = [0] * len(graph)
    pending = [(graph, list(range(len(graph))), list(range(len(limits))))]
    while pending:
        sub, members, nodes = pending.pop()
        if len(nodes) == 1 or not members:
            for v in members:
                part[v] = nodes[0]
            continue
        side = halve(sub, [limits[n] for n in nodes], [capacities[n] for n in nodes])
        given = _nodes_for(sub, side, [capacities[n] for n in nodes])
        for at, share in ((1, nodes[given:]), (0, nodes[:given])):
            inside = [i for i, s in enumerate(side) if s == at]
            pending.append((induced(sub, inside), [members[i] for i in inside], share))
    return part


def halve_as_printed(graph: IndexedGraph, limits: Sequence[float], capacities: Sequence[float]) -> list[int]:
    """Algorithm 2 alone: the best breadth-first growth, no refinement."""
    target, low, high = _aim(graph, limits, capacities)
    return best_splits(graph, target, (high - low) / (2 * (sum(graph.weight) or 1.0)))[0].side


def halve_refined(tasks_max: int, seed: int | None = None, effort: Effort = THOROUGH) -> Halve:
    """Consolidate each part again to ``tasks_max`` tasks, grow, and refine on the way back; a seed mixes the order."""
    random = None if seed is None else Random(seed)  # noqa: S311 - choices, not secrets

    def halve(graph: IndexedGraph, limits: Sequence[float], capacities: Sequence[float]) -> list[int]:
        return bisect(graph, _aim(graph, limits, capacities), tasks_max, random, effort)

    return halve


def _aim(graph: IndexedGraph, limits: Sequence[float], capacities: Sequence[float]) -> tuple[float, float, float]:
    """Share of side 0, which gets the first half of the nodes (rounded up), and the bounds of its weight.

    What the limits leave above the load is slack; each level of the recursion may use an equal part of it, so that
    the last splits, where single tasks weigh most, still find some.
    """
    first = math.ceil(len(limits) / 2)
    total = sum(graph.weight)
    target = sum(capacities[:first]) / sum(capacities)
    slack = max(0.0, sum(limits) / total - 1) / math.ceil(math.log2(len(limits))) if total else 0.0
    return target, total - total * (1 - target) * (1 + slack), total * target * (1 + slack)


def _nodes_for(graph: IndexedGraph, side: Sequence[int], capacities: Sequence[float]) -> int:
    """How many of the nodes, from the front, fit the load of side 0 best: node counts in proportion to load."""
    total = sum(graph.weight) or 1.0
    share = sum(w for w, s in zip(graph.weight, side, strict=True) if not s) / total
    capacity, best_at, best_off, reached = sum(capacities), 1, math.inf, 0.0
    for count in range(1, len(capacities)):
        reached += capacities[count - 1]
        if abs(reached / capacity - share) < best_off:
            best_at, best_off = count, abs(reached / capacity - share)
    return best_at
