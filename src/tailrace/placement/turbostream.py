"""TurboStream's coarse-grained scheduler (text 004, section V): consolidate, split by halves, round robin over workers.

Off-line it works on the declared weights, on-line on a snapshot's measured CPU and traffic. Changed against the paper:
every part is consolidated again before it is split, splits are refined while tasks unfold, and nodes are mended and
polished at the end (``as_printed=True`` leaves all of that out). It loses to round robin where traffic is
negligible and only worker-level balance matters, and it knows one resource: memory or network limits are not balanced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import check_nodes
from .partitioning.consolidate import consolidate
from .partitioning.indexed import cut_of, indexed, load_limits
from .partitioning.kway import Room, mend, polish
from .partitioning.partition import QUICK, THOROUGH, halve_as_printed, halve_refined, partition
from .partitioning.settle import settle
from .snapshot import measured, with_measured_speed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Assignment, Node, TaskGraph
    from .partitioning.indexed import IndexedGraph
    from .snapshot import Snapshot

IMBALANCE_MAX = 0.05
# The paper's taskNumThreshold, for which it gives no value.
TASKS_MAX = 64
# Small graphs get several tries, in different orders, up to this much work (see work_of).
_TRY_WORK = 700_000
_TRIES_MAX = 4
_POLISH_VISITS = 3_000_000
_QUICK_WORK = 1_000_000
_QUICK_NODES = 128
_QUICK_POLISH_VISITS = 600_000
# Consolidation before splitting leaves at least this many parents for each node, so that loads can be evened out.
_PARENTS_PER_NODE = 4


def work_of(graph: IndexedGraph, nodes: int) -> int:
    """Edge ends x levels of halving: what one careful try costs, in units of some microseconds."""
    return (sum(map(len, graph.near)) + len(graph) + 1) * nodes.bit_length()


def is_large(graph: IndexedGraph, nodes: int) -> bool:
    """Whether speed counts more than the last per cent of the cut."""
    return work_of(graph, nodes) > _QUICK_WORK or nodes > _QUICK_NODES


class TurboStream:
    """Place by consolidation and recursive bisection; deterministic for a seed."""

    def __init__(
        self,
        *,
        imbalance_max: float = IMBALANCE_MAX,
        tasks_max: int = TASKS_MAX,
        traffic: str = "bytes",
        seed: int = 0,
        as_printed: bool = False,
    ) -> None:
        self.imbalance_max = imbalance_max
        self.tasks_max = tasks_max
        self.traffic = traffic
        self.seed = seed
        self.as_printed = as_printed

    def place(self, graph: TaskGraph, nodes: Sequence[Node], snapshot: Snapshot | None = None) -> Assignment:
        """Place on declared (no snapshot) or measured weights; tasks that already run move as little as possible."""
        check_nodes(nodes, len(graph.vertices))
        nodes = with_measured_speed(nodes, snapshot)
        task_graph = indexed(measured(graph, snapshot), self.traffic)
        limits = load_limits(task_graph, nodes, self.imbalance_max)
        slots = [float("inf") if node.slots is None else node.slots for node in nodes]
        if self.as_printed:
            part = self._as_printed(task_graph, nodes, limits)
            # Task slots are not in the paper, but a full node cannot take more in any mode.
            mend(task_graph, part, [float("inf")] * len(nodes), slots)
        else:
            part = self._best_try(task_graph, nodes, limits, slots)
        return settle(graph, nodes, part, snapshot.assignment if snapshot else None)

    def _as_printed(self, graph: IndexedGraph, nodes: Sequence[Node], limits: Sequence[float]) -> list[int]:
        """Consolidate once, split the parents, and let every task follow its parent."""
        # Fewer parents than nodes could not be spread at all.
        graphs, parents_of = consolidate(graph, max(self.tasks_max, _PARENTS_PER_NODE * len(nodes)))
        part = partition(graphs[-1], limits, [node.capacity for node in nodes], halve_as_printed)
        return _unfold(part, parents_of)

    def _best_try(
        self, graph: IndexedGraph, nodes: Sequence[Node], limits: Sequence[float], slots: Sequence[float]
    ) -> list[int]:
        """Least overload first, then least cut."""
        if is_large(graph, len(nodes)):
            return self._quick_try(graph, nodes, limits, slots)
        tries = max(1, min(_TRIES_MAX, _TRY_WORK // work_of(graph, len(nodes))))
        best: tuple[float, float, list[int]] | None = None
        for attempt in range(tries):
            # The first try visits tasks in their order, as the paper does, unless a seed must show in the only one.
            in_order = attempt == 0 and (tries > 1 or not self.seed)
            seed = None if in_order else self.seed * _TRIES_MAX + attempt
            halve = halve_refined(self.tasks_max, seed, THOROUGH)
            part = partition(graph, limits, [node.capacity for node in nodes], halve)
            mend(graph, part, limits, slots)
            polish(graph, part, limits, slots, _POLISH_VISITS)
            room = Room(graph, part, limits, slots)
            judged = (max(map(room.excess, range(len(nodes)))), cut_of(graph, part), part)
            if best is None or judged[:2] < best[:2]:
                best = judged
        return best[2] if best else []

    def _quick_try(
        self, graph: IndexedGraph, nodes: Sequence[Node], limits: Sequence[float], slots: Sequence[float]
    ) -> list[int]:
        """One try for large graphs: consolidate once beforehand, as the paper does, and split only the parents."""
        parent_max = min(limits) / _PARENTS_PER_NODE
        graphs, parents_of = consolidate(graph, _PARENTS_PER_NODE * len(nodes), weight_max=parent_max)
        halve = halve_refined(self.tasks_max, self.seed, QUICK)
        part = _unfold(partition(graphs[-1], limits, [node.capacity for node in nodes], halve), parents_of)
        mend(graph, part, limits, slots)
        polish(graph, part, limits, slots, _QUICK_POLISH_VISITS)
        return part


def _unfold(part: list[int], parents_of: Sequence[Sequence[int]]) -> list[int]:
    """Put every task where its parent went, level by level."""
    for parent in reversed(parents_of):
        part = [part[p] for p in parent]
    return part
