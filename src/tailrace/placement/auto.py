"""The best of all policies by predicted traffic between nodes, within the balance bound.

It runs every candidate, and also mends and polishes each result, so that a good cut with a bad balance may still win.
With ``shuffle`` worker or node it judges by the traffic that node-local shuffle would leave, where an even deal of all
operators over all nodes is often best. It loses only time: the sum of all candidates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .accounting import account
from .errors import UnknownPolicyError
from .metis import Metis, metis_installed
from .model import check_nodes
from .partitioning.indexed import cut_of, indexed, load_limits
from .partitioning.kway import Room, mend, polish
from .partitioning.settle import keep_workers, settle
from .round_robin import RoundRobinPlacement
from .snapshot import measured, with_measured_speed
from .stromax import StroMax
from .turbostream import IMBALANCE_MAX, TurboStream, is_large

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .model import Assignment, Node, TaskGraph
    from .partitioning.indexed import IndexedGraph
    from .policy import PlacementPolicy
    from .snapshot import Snapshot

CANDIDATES = ("turbostream", "metis", "stromax", "round_robin")
_POLISH_VISITS = 500_000
_QUICK_POLISH_VISITS = 100_000


class Auto:
    """Try all candidates; ``metis`` is passed over where it is not installed."""

    def __init__(
        self,
        *,
        candidates: Sequence[str] = CANDIDATES,
        imbalance_max: float = IMBALANCE_MAX,
        shuffle: str = "even",
        traffic: str = "bytes",
        seed: int = 0,
    ) -> None:
        make: dict[str, Callable[[], PlacementPolicy]] = {
            "turbostream": lambda: TurboStream(imbalance_max=imbalance_max, traffic=traffic, seed=seed),
            "metis": lambda: Metis(imbalance_max=imbalance_max, traffic=traffic, seed=seed),
            "stromax": lambda: StroMax(theta=imbalance_max, neighbour_weight="traffic", traffic=traffic),
            "round_robin": RoundRobinPlacement,
        }
        known = [name for name in make if name != "metis" or metis_installed()]
        if set(candidates) - set(make) or not set(candidates) & set(known):
            raise UnknownPolicyError(
                f"Auto chooses among {CANDIDATES}, of which {known} are installed; found {candidates}.",
                "Leave out the others, and leave at least one.",
            )
        self.policies = {name: make[name]() for name in candidates if name in known}
        self.imbalance_max = imbalance_max
        self.shuffle = shuffle
        self.traffic = traffic

    def place(self, graph: TaskGraph, nodes: Sequence[Node], snapshot: Snapshot | None = None) -> Assignment:
        """Return the best placement found: least overload, then least predicted traffic between nodes."""
        check_nodes(nodes, len(graph.vertices))
        nodes = with_measured_speed(nodes, snapshot)
        weighed = measured(graph, snapshot)
        task_graph = indexed(weighed, self.traffic)
        limits = load_limits(task_graph, nodes, self.imbalance_max)
        slots = [float("inf") if node.slots is None else node.slots for node in nodes]
        before = snapshot.assignment if snapshot else None
        large = is_large(task_graph, len(nodes))
        offers: list[tuple[float, float, Assignment]] = []
        for policy in self.policies.values():
            placed = policy.place(graph, nodes, snapshot)
            offers.append((*self._judge(weighed, task_graph, nodes, placed, limits), placed))
            # TurboStream has polished its own; in large graphs only a candidate that would win if it were in balance is
            # worth the time.
            if not large or offers[-1][1] < min((cut for excess, cut, _ in offers if not excess), default=math.inf):
                better = self._improved(graph, task_graph, nodes, placed, limits, slots, before)
                offers.append((*self._judge(weighed, task_graph, nodes, better, limits), better))
        return min(offers, key=lambda offer: offer[:2])[2]

    def _improved(
        self,
        graph: TaskGraph,
        task_graph: IndexedGraph,
        nodes: Sequence[Node],
        placed: Assignment,
        limits: Sequence[float],
        slots: Sequence[float],
        before: Assignment | None,
    ) -> Assignment:
        """Mend and polish a candidate; without a running placement its tasks keep its workers where they stay."""
        part = _parts(graph, nodes, placed)
        mend(task_graph, part, limits, slots)
        large = is_large(task_graph, len(nodes))
        polish(task_graph, part, limits, slots, _QUICK_POLISH_VISITS if large else _POLISH_VISITS)
        return settle(graph, nodes, part, before) if before else keep_workers(graph, nodes, part, placed)

    def _judge(
        self,
        weighed: TaskGraph,
        task_graph: IndexedGraph,
        nodes: Sequence[Node],
        offer: Assignment,
        limits: Sequence[float],
    ) -> tuple[float, float]:
        """Overload beyond the bound and traffic between nodes, as the shuffle in use would make them."""
        if self.shuffle == "even":
            part = _parts(weighed, nodes, offer)
            room = Room(task_graph, part, limits, [float("inf")] * len(nodes))
            return max(map(room.excess, range(len(nodes)))), cut_of(task_graph, part)
        found = account(weighed, nodes, offer, self.shuffle)
        crossing = found.total.inter_node_bytes if self.traffic == "bytes" else found.total.inter_node_tuples
        return max(0.0, found.imbalance / (1 + self.imbalance_max) - 1), crossing


def _parts(graph: TaskGraph, nodes: Sequence[Node], placed: Assignment) -> list[int]:
    index = {node.name: i for i, node in enumerate(nodes)}
    return [index[placed.node_of[vertex.id]] for vertex in graph.vertices]
