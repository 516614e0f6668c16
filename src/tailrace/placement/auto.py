"""The best of all policies by predicted traffic between nodes, within the balance bound.

It runs every candidate, mends and polishes each result (so that a good cut with a bad balance may still win), and keeps
the one with the least overload, then the least traffic. It loses only time: the sum of all candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import UnknownPolicyError
from .indexed import cut_of, indexed, load_limits
from .kway import Room, mend, polish
from .metis import Metis, metis_installed
from .model import check_nodes
from .round_robin import RoundRobin
from .settle import settle
from .snapshot import measured, with_measured_speed
from .stromax import StroMax
from .turbostream import IMBALANCE_MAX, TurboStream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .model import Assignment, Node, TaskGraph
    from .policy import PlacementPolicy
    from .snapshot import Snapshot

CANDIDATES = ("turbostream", "metis", "stromax", "round_robin")
_POLISH_VISITS = 500_000
# Larger graphs are judged as the candidates leave them: TurboStream has polished its own, and time counts.
_POLISH_ENDS_MAX = 150_000


class Auto:
    """Try all candidates; ``metis`` is passed over where it is not installed."""

    def __init__(
        self,
        *,
        candidates: Sequence[str] = CANDIDATES,
        imbalance_max: float = IMBALANCE_MAX,
        traffic: str = "bytes",
        seed: int = 0,
    ) -> None:
        make: dict[str, Callable[[], PlacementPolicy]] = {
            "turbostream": lambda: TurboStream(imbalance_max=imbalance_max, traffic=traffic, seed=seed),
            "metis": lambda: Metis(imbalance_max=imbalance_max, traffic=traffic, seed=seed),
            "stromax": lambda: StroMax(theta=imbalance_max, neighbour_weight="traffic", traffic=traffic),
            "round_robin": RoundRobin,
        }
        wrong = [name for name in candidates if name not in make]
        if wrong or not candidates:
            raise UnknownPolicyError(f"Auto chooses among {CANDIDATES}, found {candidates}.", "Leave out the others.")
        self.policies = {name: make[name]() for name in candidates if name != "metis" or metis_installed()}
        self.imbalance_max = imbalance_max
        self.traffic = traffic

    def place(self, graph: TaskGraph, nodes: Sequence[Node], snapshot: Snapshot | None = None) -> Assignment:
        """Return the best placement found."""
        check_nodes(nodes, len(graph.vertices))
        nodes = with_measured_speed(nodes, snapshot)
        task_graph = indexed(measured(graph, snapshot), self.traffic)
        limits = load_limits(task_graph, nodes, self.imbalance_max)
        slots = [float("inf") if node.slots is None else node.slots for node in nodes]
        index = {node.name: i for i, node in enumerate(nodes)}
        ends = sum(map(len, task_graph.near))
        visits = _POLISH_VISITS if ends < _POLISH_ENDS_MAX else 0
        best: tuple[float, float, list[int]] | None = None
        for policy in self.policies.values():
            placed = policy.place(graph, nodes, snapshot)
            part = [index[placed.node_of[vertex.id]] for vertex in graph.vertices]
            mend(task_graph, part, limits, slots)
            polish(task_graph, part, limits, slots, visits)
            room = Room(task_graph, part, limits, slots)
            judged = (max(map(room.excess, range(len(nodes)))), cut_of(task_graph, part), part)
            if best is None or judged[:2] < best[:2]:
                best = judged
        return settle(graph, nodes, best[2] if best else [], snapshot.assignment if snapshot else None)
