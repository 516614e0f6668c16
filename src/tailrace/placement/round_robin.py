"""Storm's even scheduler, the baseline of both papers: deal the tasks to the workers in turn, nodes interleaved.

It balances the number of tasks and looks at nothing else, so it loses wherever neighbours could share a node: with
k nodes a shuffle stream crosses the network for (k - 1) / k of its tuples. It wins when traffic is negligible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import Assignment, check_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Node, TaskGraph
    from .snapshot import Snapshot


class RoundRobinPlacement:
    """First worker of every node, then the second of every node, and so on, around again until all tasks are dealt."""

    def place(self, graph: TaskGraph, nodes: Sequence[Node], snapshot: Snapshot | None = None) -> Assignment:
        """Deal tasks in graph order; a node whose task slots are all taken is passed over."""
        del snapshot  # what was measured cannot change an even deal
        check_nodes(nodes, len(graph.vertices))
        room: dict[str, float] = {n.name: float("inf") if n.slots is None else n.slots for n in nodes}
        deal = [(node.name, w) for w in range(max(n.workers for n in nodes)) for node in nodes if w < node.workers]
        node_of: dict[str, str] = {}
        worker_of: dict[str, int] = {}
        turn = 0
        for vertex in graph.vertices:
            while room[deal[turn % len(deal)][0]] < 1:
                turn += 1
            node_of[vertex.id], worker_of[vertex.id] = deal[turn % len(deal)]
            room[node_of[vertex.id]] -= 1
            turn += 1
        return Assignment(node_of, worker_of)
