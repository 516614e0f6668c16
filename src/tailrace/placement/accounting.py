"""What an assignment costs: traffic by kind of link, load of nodes and workers, and TurboStream's shares of IPC.

The command line prints it, ``auto`` and the rebalancing loop compare by it, and the runtime holds its own measurements
against it: ``account`` works on predicted edges, ``traffic_of`` on any edges, so also on measured ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from .local import SKEW_MAX, localised

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .model import Assignment, Node, TaskEdge, TaskGraph

_Place = TypeVar("_Place")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Tuples and bytes per second over each kind of link: same worker, same node, other node."""

    in_process_tuples: float = 0.0
    intra_node_tuples: float = 0.0
    inter_node_tuples: float = 0.0
    in_process_bytes: float = 0.0
    intra_node_bytes: float = 0.0
    inter_node_bytes: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(a + b for a, b in zip(self.row, other.row, strict=True)))

    @property
    def row(self) -> tuple[float, ...]:
        """The six figures in order."""
        return (
            self.in_process_tuples,
            self.intra_node_tuples,
            self.inter_node_tuples,
            self.in_process_bytes,
            self.intra_node_bytes,
            self.inter_node_bytes,
        )

    @property
    def intra_node_share(self) -> float:
        """Share of the bytes between processes that stays on a node (TurboStream's Table II); 0 when there is none."""
        between = self.intra_node_bytes + self.inter_node_bytes
        return self.intra_node_bytes / between if between else 0.0

    @property
    def inter_node_share(self) -> float:
        """Share of the bytes between processes that crosses the network; 0 when there is none."""
        between = self.intra_node_bytes + self.inter_node_bytes
        return self.inter_node_bytes / between if between else 0.0


@dataclass(frozen=True)
class Account:
    """Prediction for one assignment. ``skew`` is the busiest task's input against what an even split would give it."""

    streams: Mapping[tuple[str, str], Traffic]
    total: Traffic
    node_loads: Mapping[str, float]
    worker_loads: Mapping[tuple[str, int], float]
    imbalance: float
    worker_imbalance: float
    skew: float

    @property
    def cut(self) -> float:
        """Bytes per second between nodes."""
        return self.total.inter_node_bytes


def traffic_of(edges: Iterable[TaskEdge], assignment: Assignment) -> Traffic:
    """Sum up edges by the kind of link they take."""
    tuples = [0.0, 0.0, 0.0]
    size = [0.0, 0.0, 0.0]
    node_of, worker_of = assignment.node_of, assignment.worker_of
    for src, dst, tuples_per_s, bytes_per_s in edges:
        kind = 2 if node_of[src] != node_of[dst] else int(worker_of[src] != worker_of[dst])
        tuples[kind] += tuples_per_s
        size[kind] += bytes_per_s
    return Traffic(*tuples, *size)


def account(
    graph: TaskGraph, nodes: Sequence[Node], assignment: Assignment, shuffle: str = "even", skew_max: float = SKEW_MAX
) -> Account:
    """Predict traffic and load; ``shuffle`` is even, worker (own worker first) or node (then the own node)."""
    carried, skew = localised(graph, assignment, shuffle, skew_max)
    operator_of = {vertex.id: vertex.operator for vertex in graph.vertices}
    by_stream: dict[tuple[str, str], list[TaskEdge]] = {}
    for edge in carried.edges:
        by_stream.setdefault((operator_of[edge.src], operator_of[edge.dst]), []).append(edge)
    streams = {stream: traffic_of(edges, assignment) for stream, edges in by_stream.items()}
    node_loads = dict.fromkeys((node.name for node in nodes), 0.0)
    worker_loads = {(node.name, worker): 0.0 for node in nodes for worker in range(node.workers)}
    for vertex in carried.vertices:
        node_loads[assignment.node_of[vertex.id]] += vertex.cpu
        worker_loads[assignment.place_of(vertex.id)] += vertex.cpu
    capacity = {node.name: node.capacity for node in nodes}
    per_worker = {(node.name, worker): node.speed for node in nodes for worker in range(node.workers)}
    return Account(
        streams,
        sum(streams.values(), Traffic()),
        node_loads,
        worker_loads,
        imbalance_of(node_loads, capacity),
        imbalance_of(worker_loads, per_worker),
        skew,
    )


def imbalance_of(loads: Mapping[_Place, float], capacity: Mapping[_Place, float]) -> float:
    """Largest load against its fair share by capacity: 1.0 is perfect, 1.05 is 5 % over."""
    total, whole = sum(loads.values()), sum(capacity.values())
    if not total:
        return 1.0
    return max(load / (total * capacity[place] / whole) for place, load in loads.items())
