"""Mending and polishing of a finished placement over all nodes: ours, not in either paper.

TurboStream's policy and ``auto`` call it last. ``mend`` moves tasks off nodes that are over their limit of load or
slots; ``polish`` refines pairs of nodes that talk to each other, with a budget so that a thousand nodes stay cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .indexed import induced, loads_of
from .refine import refine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .indexed import IndexedGraph

_EPSILON = 1e-9


class Room:
    """Load and task count of every node against its limits."""

    def __init__(
        self, graph: IndexedGraph, part: Sequence[int], limits: Sequence[float], slots: Sequence[float]
    ) -> None:
        self.limits, self.slots = limits, slots
        self.loads = loads_of(graph, part, len(limits))
        self.counts = [0] * len(limits)
        for at in part:
            self.counts[at] += 1

    def over(self, node: int) -> bool:
        """Whether the node must shed something."""
        return self.counts[node] > self.slots[node] or self.loads[node] > self.limits[node] * (1 + _EPSILON)

    def excess(self, node: int, load: float = 0.0) -> float:
        """By how much the node would be over its limit of load with this much more, relative to that limit."""
        # Loads that meet their limit exactly must not count as over by a rounding error.
        return max(0.0, (self.loads[node] + load) / self.limits[node] - 1 - _EPSILON) if self.limits[node] else load

    def move(self, load: float, src: int, dst: int) -> None:
        """Book one task from node to node."""
        self.loads[src] -= load
        self.loads[dst] += load
        self.counts[src] -= 1
        self.counts[dst] += 1


def mend(graph: IndexedGraph, part: list[int], limits: Sequence[float], slots: Sequence[float]) -> None:
    """Move tasks off overfull nodes, least loss of locality first; in place, each task at most once.

    A move must not leave the target more overloaded than the source was: where tasks are too big to fit anywhere the
    placement is only made as even as such moves can.
    """
    room = Room(graph, part, limits, slots)
    overfull: dict[int, list[int]] = {node: [] for node in range(len(limits)) if room.over(node)}
    for v, at in enumerate(part):
        if at in overfull:
            overfull[at].append(v)
    for node, members in sorted(overfull.items(), key=lambda item: (-room.excess(item[0]), item[0])):
        while members and room.over(node):
            chosen = _best_exit(graph, part, room, node, members)
            if chosen is None:
                break
            v, target = chosen
            members.remove(v)
            room.move(graph.weight[v], node, target)
            part[v] = target


def _best_exit(
    graph: IndexedGraph, part: Sequence[int], room: Room, node: int, members: Sequence[int]
) -> tuple[int, int] | None:
    """Task and target with the least resulting overload, then the least traffic lost."""
    forced = room.counts[node] > room.slots[node]
    open_nodes = [n for n in range(len(room.limits)) if n != node and room.counts[n] < room.slots[n]]
    if not open_nodes:
        return None
    idlest = min(open_nodes, key=lambda n: room.loads[n] / room.limits[n] if room.limits[n] else float("inf"))
    best: tuple[float, float, int, int] | None = None
    for v in members:
        load = graph.weight[v]
        if not load and not forced:
            continue
        traffic: dict[int, float] = {idlest: 0.0}
        for u, rate in graph.near[v].items():
            traffic[part[u]] = traffic.get(part[u], 0.0) + rate
        stay = traffic.pop(node, 0.0)
        for target, rate in traffic.items():
            if room.counts[target] >= room.slots[target]:
                continue
            excess = room.excess(target, load)
            if forced or excess < room.excess(node) - _EPSILON:
                key = (excess, stay - rate, v, target)
                best = key if best is None or key < best else best
    return None if best is None else best[2:]


def polish(
    graph: IndexedGraph,
    part: list[int],
    limits: Sequence[float],
    slots: Sequence[float],
    visits_max: int,
    rounds: int = 4,
) -> None:
    """Refine pairs of nodes, those with the most traffic between them first, until a round gains nothing; in place.

    ``visits_max`` bounds the edge ends that are looked at, so the cost is known beforehand.
    """
    members: list[list[int]] = [[] for _ in limits]
    for v, at in enumerate(part):
        members[at].append(v)
    ends = [sum(len(graph.near[v]) for v in group) for group in members]
    dirty = set(range(len(limits)))
    for _ in range(rounds):
        changed: set[int] = set()
        for i, j in _talking_pairs(graph, part, dirty):
            visits_max -= ends[i] + ends[j] + 1
            if visits_max < 0:
                return
            if _refine_pair(graph, part, (i, j), members, limits, slots):
                changed |= {i, j}
                ends[i], ends[j] = (sum(len(graph.near[v]) for v in members[n]) for n in (i, j))
        if not changed:
            return
        dirty = changed


def _talking_pairs(graph: IndexedGraph, part: Sequence[int], dirty: set[int]) -> list[tuple[int, int]]:
    """Pairs of nodes that exchange traffic and of which at least one has changed, heaviest first."""
    between: dict[tuple[int, int], float] = {}
    for v, near in enumerate(graph.near):
        at = part[v]
        for u, rate in near.items():
            to = part[u]
            if at < to and (at in dirty or to in dirty):
                between[at, to] = between.get((at, to), 0.0) + rate
    return sorted(between, key=lambda pair: (-between[pair], pair))


def _refine_pair(
    graph: IndexedGraph,
    part: list[int],
    pair: tuple[int, int],
    members: list[list[int]],
    limits: Sequence[float],
    slots: Sequence[float],
) -> bool:
    i, j = pair
    both = sorted(members[i] + members[j])
    sub = induced(graph, both)
    before = [0 if part[v] == i else 1 for v in both]
    side = list(before)
    total = sum(sub.weight)
    # A pair that is over its limits already may stay as far over, but not go further.
    load_i = sum(w for w, s in zip(sub.weight, before, strict=True) if not s)
    stretch = max(1.0, *(load / limit for load, limit in ((load_i, limits[i]), (total - load_i, limits[j])) if limit))
    refine(sub, side, total - limits[j] * stretch, limits[i] * stretch, passes=3)
    zero = side.count(0)
    if side == before or zero > slots[i] or len(both) - zero > slots[j]:
        return False
    members[i] = [v for v, s in zip(both, side, strict=True) if not s]
    members[j] = [v for v, s in zip(both, side, strict=True) if s]
    for v, s in zip(both, side, strict=True):
        part[v] = j if s else i
    return True
