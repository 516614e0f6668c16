"""From parts to places: the node of each part and the worker of each task, moving as little as can be of what runs.

Partitioning policies call it last. Parts have no names of their own, so among nodes of equal capacity and slots a part
goes where most of its tasks already are; a task that stays on its node keeps its worker while that one has room.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..model import Assignment, spread_over_workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import Node, TaskGraph


def settle(graph: TaskGraph, nodes: Sequence[Node], part: Sequence[int], before: Assignment | None) -> Assignment:
    """Turn a node index per task into an assignment; without a running placement workers are simply dealt in turn."""
    if before is None:
        return spread_over_workers(graph, nodes, part)
    node_of = _nodes_of_parts(graph, nodes, part, before)
    return keep_workers(graph, nodes, [node_of[at] for at in part], before)


def _nodes_of_parts(graph: TaskGraph, nodes: Sequence[Node], part: Sequence[int], before: Assignment) -> list[int]:
    """Node for each part: pairs of part and interchangeable node by load that need not move, largest first."""
    index = {node.name: i for i, node in enumerate(nodes)}
    overlap: dict[tuple[int, int], float] = {}
    for vertex, at in zip(graph.vertices, part, strict=True):
        was = index.get(before.node_of.get(vertex.id, ""), -1)
        if was >= 0 and _kind(nodes[was]) == _kind(nodes[at]):
            # One more than the load, so that idle tasks count a little too.
            overlap[at, was] = overlap.get((at, was), 0.0) + vertex.cpu + 1.0
    node_of = [-1] * len(nodes)
    taken: set[int] = set()
    for at, was in sorted(overlap, key=lambda pair: (-overlap[pair], pair)):
        if node_of[at] < 0 and was not in taken:
            node_of[at] = was
            taken.add(was)
    for at, node in enumerate(nodes):
        if node_of[at] < 0:
            node_of[at] = next(i for i, other in enumerate(nodes) if i not in taken and _kind(other) == _kind(node))
            taken.add(node_of[at])
    return node_of


def _kind(node: Node) -> tuple[float, int, int | None]:
    return node.capacity, node.workers, node.slots


def keep_workers(graph: TaskGraph, nodes: Sequence[Node], part: Sequence[int], before: Assignment) -> Assignment:
    """Leave tasks in their worker up to an even count per worker; the others fill the emptiest workers."""
    tasks_on = [0] * len(nodes)
    for at in part:
        tasks_on[at] += 1
    filled = [[0] * node.workers for node in nodes]
    worker_of: dict[str, int] = {}
    for vertex, at in zip(graph.vertices, part, strict=True):
        worker = before.worker_of.get(vertex.id, -1)
        stays = before.node_of.get(vertex.id) == nodes[at].name and 0 <= worker < nodes[at].workers
        if stays and filled[at][worker] < math.ceil(tasks_on[at] / nodes[at].workers):
            worker_of[vertex.id] = worker
            filled[at][worker] += 1
    for vertex, at in zip(graph.vertices, part, strict=True):
        if vertex.id not in worker_of:
            worker = filled[at].index(min(filled[at]))
            worker_of[vertex.id] = worker
            filled[at][worker] += 1
    node_of = {vertex.id: nodes[at].name for vertex, at in zip(graph.vertices, part, strict=True)}
    return Assignment(node_of, {vertex.id: worker_of[vertex.id] for vertex in graph.vertices})
