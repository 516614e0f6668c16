"""StroMAX (text 003, section 3): stream the tasks in topological order to the node with the most neighbours and room.

Bootstrap (equation 5) looks at structure only; Rebalance (equation 10) streams the measured global graph of all running
topologies and then moves tasks off overloaded nodes (``reassign``). Equation 10 weighs neighbours by their CPU as
printed; ``neighbour_weight="traffic"`` weighs them by the traffic with them instead. One pass costs O(E + N log M), but
it never looks back, so it loses to bisection wherever a later task shows that an early one was put in the wrong place.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from random import Random
from typing import TYPE_CHECKING

from .errors import CyclicGraphError, UnknownPolicyError
from .model import check_nodes
from .partitioning.indexed import indexed, load_limits
from .partitioning.reassign import THETA, reassign
from .partitioning.settle import keep_workers, settle
from .snapshot import Snapshot, measured, with_measured_speed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Assignment, Node, TaskGraph
    from .partitioning.indexed import IndexedGraph

NEIGHBOUR_WEIGHTS = ("cpu", "traffic")
REBALANCES = ("global", "reassign")


def linearise(graph: TaskGraph, seed: int | None = None) -> list[int]:
    """Order the tasks upstream first (Algorithm 1, lines 1-14): sources in graph order, or mixed by a seed."""
    after: list[list[int]] = [[] for _ in graph.vertices]
    waiting = [0] * len(graph.vertices)
    position = graph.position
    for edge in graph.edges:
        after[position[edge.src]].append(position[edge.dst])
        waiting[position[edge.dst]] += 1
    sources = [v for v, count in enumerate(waiting) if not count]
    if seed is not None:
        Random(seed).shuffle(sources)  # noqa: S311 - choices, not secrets
    ready, order = deque(sources), []
    while ready:
        v = ready.popleft()
        order.append(v)
        for u in after[v]:
            waiting[u] -= 1
            if not waiting[u]:
                ready.append(u)
    if len(order) < len(graph.vertices):
        stuck = next(graph.vertices[v].id for v, count in enumerate(waiting) if count)
        raise CyclicGraphError(
            f"StroMAX needs a graph without cycles, but {stuck!r} waits for itself.", "Use the policy 'turbostream'."
        )
    return order


class Streamer:
    """Takes one task after the other and gives each to argmax of neighbours x (1 - load / capacity).

    Ties, and tasks without placed neighbours (every source), go to the least relative load, then the lowest index.
    A full node takes nothing; when a task fits nowhere the least loaded node with a free slot gets it all the same.
    """

    def __init__(
        self, graph: IndexedGraph, loads: Sequence[float], caps: Sequence[float], slots: Sequence[float]
    ) -> None:
        self.graph, self.loads, self.caps, self.slots = graph, loads, caps, slots
        self.part = [-1] * len(graph)
        self.used = [0.0] * len(caps)
        self.counts = [0] * len(caps)
        self.idlest = [(0.0, i) for i in range(len(caps)) if slots[i] > 0]

    def put(self, v: int, node: int) -> None:
        """Book a task on a node."""
        self.part[v] = node
        self.used[node] += self.loads[v]
        self.counts[node] += 1
        heapq.heappush(self.idlest, (self._relative(node), node))

    def stream(self, v: int, weights: Sequence[float] | None) -> None:
        """Place one task; ``weights`` are the neighbours' (None: the traffic with them)."""
        scores: dict[int, float] = {}
        for u, rate in self.graph.near[v].items():
            node = self.part[u]
            if node >= 0:
                scores[node] = scores.get(node, 0.0) + (rate if weights is None else weights[u])
        best, best_key = -1, (0.0, 0.0, 0)
        for node, near in scores.items():
            score = near * (1 - self._relative(node))
            key = (-score, self._relative(node), node)
            if score > 0 and self._fits(v, node) and (best < 0 or key < best_key):
                best, best_key = node, key
        self.put(v, best if best >= 0 else self._least_loaded(v))

    def _relative(self, node: int) -> float:
        return self.used[node] / self.caps[node] if self.caps[node] else self.used[node]

    def _fits(self, v: int, node: int) -> bool:
        # The margin forgives rounding only.
        return self.counts[node] < self.slots[node] and self.used[node] + self.loads[v] <= self.caps[node] * (1 + 1e-9)

    def _least_loaded(self, v: int) -> int:
        """Pop outdated heap entries until the idlest node that fits shows; put back those passed over."""
        passed: list[tuple[float, int]] = []
        fallback = found = -1
        while self.idlest and found < 0:
            relative, node = heapq.heappop(self.idlest)
            if relative != self._relative(node) or self.counts[node] >= self.slots[node]:
                continue
            passed.append((relative, node))
            if self._fits(v, node):
                found = node
            elif fallback < 0:
                fallback = node
        for entry in passed:
            heapq.heappush(self.idlest, entry)
        return found if found >= 0 else fallback


class StroMax:
    """Without a snapshot Bootstrap, with one Rebalance; ``rebalance="reassign"`` only moves tasks of what runs."""

    def __init__(
        self,
        *,
        neighbour_weight: str = "cpu",
        rebalance: str = "global",
        theta: float = THETA,
        traffic: str = "bytes",
        seed: int | None = None,
    ) -> None:
        if neighbour_weight not in NEIGHBOUR_WEIGHTS or rebalance not in REBALANCES:
            raise UnknownPolicyError(
                f"StroMAX knows neighbour_weight {NEIGHBOUR_WEIGHTS} and rebalance {REBALANCES}, "
                f"found {neighbour_weight!r} and {rebalance!r}.",
                "Choose one of each.",
            )
        self.neighbour_weight = neighbour_weight
        self.rebalance = rebalance
        self.theta = theta
        self.traffic = traffic
        self.seed = seed

    def place(self, graph: TaskGraph, nodes: Sequence[Node], snapshot: Snapshot | None = None) -> Assignment:
        """Place all tasks of one topology, or of the union of all running ones."""
        check_nodes(nodes, len(graph.vertices))
        nodes = with_measured_speed(nodes, snapshot)
        slots = [float("inf") if node.slots is None else node.slots for node in nodes]
        if snapshot is None:
            return settle(graph, nodes, self._bootstrap(graph, nodes, slots), None)
        task_graph = indexed(measured(graph, snapshot), self.traffic)
        before = snapshot.assignment
        limits = load_limits(task_graph, nodes, self.theta)
        streamer = Streamer(task_graph, task_graph.weight, limits, slots)
        in_place = self.rebalance == "reassign" and before is not None
        if in_place and before is not None:
            _seat(streamer, graph, nodes, before)
        weights = task_graph.weight if self.neighbour_weight == "cpu" else None
        for v in linearise(graph, self.seed):
            if streamer.part[v] < 0:
                streamer.stream(v, weights)
        held = {graph.position[task] for task in snapshot.held if task in graph.position}
        part, _ = reassign(task_graph, streamer.part, limits, slots, held if in_place else set())
        if in_place and before is not None:
            return keep_workers(graph, nodes, part, before)
        return settle(graph, nodes, part, before)

    def _bootstrap(self, graph: TaskGraph, nodes: Sequence[Node], slots: Sequence[float]) -> list[int]:
        """Equation 5: every task costs one; a node's capacity is its slots, or its share of the tasks plus theta."""
        tasks = len(graph.vertices)
        capacity = sum(node.capacity for node in nodes)
        shares = [math.ceil(tasks * node.capacity / capacity * (1 + self.theta)) for node in nodes]
        caps = [float(share if node.slots is None else node.slots) for node, share in zip(nodes, shares, strict=True)]
        ones = [1.0] * tasks
        streamer = Streamer(indexed(graph, self.traffic), ones, caps, slots)
        for v in linearise(graph, self.seed):
            streamer.stream(v, ones)
        return streamer.part


def _seat(streamer: Streamer, graph: TaskGraph, nodes: Sequence[Node], before: Assignment) -> None:
    """Start from what runs; tasks of nodes that are gone, or that no longer have the slots, are streamed again."""
    index = {node.name: i for i, node in enumerate(nodes)}
    for v, vertex in enumerate(graph.vertices):
        node = index.get(before.node_of.get(vertex.id, ""), -1)
        if node >= 0 and streamer.counts[node] < streamer.slots[node]:
            streamer.put(v, node)
