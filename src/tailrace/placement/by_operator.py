"""A node for each operator: the deployment of Hone's testbed (its section 6.1), for experiments with the uplink.

The workers, node by node, are divided among the operators in the order of the topology; each operator's tasks are dealt
in turn over its part. With as many equal nodes as operators every node has one operator; with more nodes an operator
has several of them (3, 3 and 4 of ten). It loses to every other policy in traffic, because all of it leaves its node:
that is what it is for.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING

from .model import Assignment, check_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Node, TaskGraph
    from .snapshot import Snapshot


class ByOperator:
    """Deals each operator over workers of its own."""

    def place(self, graph: TaskGraph, nodes: Sequence[Node], snapshot: Snapshot | None = None) -> Assignment:
        """Place by operator; where a part has no slot left, the next worker that has one takes the task."""
        del snapshot  # it goes by the drawing alone
        check_nodes(nodes, len(graph.vertices))
        room: dict[str, float] = {n.name: float("inf") if n.slots is None else n.slots for n in nodes}
        workers = [(node.name, worker) for node in nodes for worker in range(node.workers)]
        operators = list(dict.fromkeys(vertex.operator for vertex in graph.vertices))
        ways = {}
        for number, operator in enumerate(operators):
            first = number * len(workers) // len(operators)
            last = max(first + 1, (number + 1) * len(workers) // len(operators))
            ways[operator] = cycle(workers[first:last])
        node_of: dict[str, str] = {}
        worker_of: dict[str, int] = {}
        for vertex in graph.vertices:
            deal = [*islice(ways[vertex.operator], 1), *workers]
            place = next(each for each in deal if room[each[0]] >= 1)
            node_of[vertex.id], worker_of[vertex.id] = place
            room[place[0]] -= 1
        return Assignment(node_of, worker_of)
