"""StroMAX's dynamic task reassignment (text 003, Algorithm 2): overloaded nodes shed tasks to the nodes they talk to.

StroMAX's Rebalance calls it last, and the rebalancing loop may call it alone. A node is overloaded above its share of
the mean x (1 + theta), theta = 12 %; the printed theta x mean would always fire. Guards of ours: a move must not push
its target over the same threshold, and no task moves twice or while it is held, so nothing bounces and the loop ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .kway import Room

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from .indexed import IndexedGraph

THETA = 0.12


class Reassignment(NamedTuple):
    """One task leaving one node for another, by index."""

    task: int
    src: int
    dst: int


def reassign(
    graph: IndexedGraph,
    part: Sequence[int],
    limits: Sequence[float],
    slots: Sequence[float],
    held: AbstractSet[int] = frozenset(),
) -> tuple[list[int], list[Reassignment]]:
    """Return the new node of every task and the moves that lead there.

    From each overloaded node the task with the most traffic to other nodes goes first, to the node it talks to most
    among those with room; if none of them has room, to the least loaded node that has (ours).
    """
    after = list(part)
    room = Room(graph, part, limits, slots)
    moves: list[Reassignment] = []
    fixed = set(held)
    for node in range(len(limits)):
        if not room.over(node):
            continue
        shed = [v for v, at in enumerate(after) if at == node and v not in fixed and graph.weight[v] > 0]
        shed.sort(key=lambda v: (_remote(graph, after, v), -v))
        while shed and room.over(node):
            v = shed.pop()
            target = _target(graph, after, room, v)
            if target < 0:
                continue
            room.move(graph.weight[v], node, target)
            after[v] = target
            fixed.add(v)
            moves.append(Reassignment(v, node, target))
    return after, moves


def _remote(graph: IndexedGraph, part: Sequence[int], v: int) -> float:
    """Traffic of one task with tasks on other nodes: the paper's capital gamma."""
    return sum(rate for u, rate in graph.near[v].items() if part[u] != part[v])


def _target(graph: IndexedGraph, part: Sequence[int], room: Room, v: int) -> int:
    """Node with room that the task talks to most, else the idlest with room, else -1."""
    traffic: dict[int, float] = {}
    for u, rate in graph.near[v].items():
        if part[u] != part[v]:
            traffic[part[u]] = traffic.get(part[u], 0.0) + rate
    talking = [n for n in traffic if _takes(room, n, graph.weight[v])]
    if talking:
        return min(talking, key=lambda n: (-traffic[n], n))
    others = [n for n in range(len(room.limits)) if n != part[v] and _takes(room, n, graph.weight[v])]
    return min(others, key=lambda n: (room.loads[n] / room.limits[n], n), default=-1)


def _takes(room: Room, node: int, load: float) -> bool:
    return room.counts[node] < room.slots[node] and room.loads[node] + load <= room.limits[node]
