"""METIS through pymetis (optional extra), recursive by default: the reference that the others are held against.

It needs whole-numbered weights, so rates are scaled. It is fast and good on large sparse graphs; on the small dense
graphs of shuffle topologies it often exceeds the balance it was asked for, and nothing here repairs that except slots.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import PartitionerMissingError
from .model import check_nodes
from .partitioning.indexed import indexed
from .partitioning.kway import mend
from .partitioning.settle import settle
from .snapshot import measured, with_measured_speed
from .turbostream import IMBALANCE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .model import Assignment, Node, TaskGraph
    from .partitioning.indexed import IndexedGraph
    from .snapshot import Snapshot

# METIS may be built with 32-bit integers and adds weights up.
_TOTAL_MAX = 1_000_000_000
_PER_MILLE = 1000


def metis_installed() -> bool:
    """Whether the optional binding can be imported."""
    try:
        import_module("pymetis")
    except ImportError:
        return False
    return True


class Metis:
    """Place by METIS; ``imbalance_max`` None leaves METIS its own default tolerance."""

    def __init__(
        self,
        *,
        recursive: bool = True,
        imbalance_max: float | None = IMBALANCE_MAX,
        traffic: str = "bytes",
        seed: int = 0,
    ) -> None:
        self.recursive = recursive
        self.imbalance_max = imbalance_max
        self.traffic = traffic
        self.seed = seed

    def place(self, graph: TaskGraph, nodes: Sequence[Node], snapshot: Snapshot | None = None) -> Assignment:
        """Place on declared or measured weights."""
        check_nodes(nodes, len(graph.vertices))
        nodes = with_measured_speed(nodes, snapshot)
        task_graph = indexed(measured(graph, snapshot), self.traffic)
        part = self._parts(task_graph, nodes)
        slots = [float("inf") if node.slots is None else node.slots for node in nodes]
        mend(task_graph, part, [float("inf")] * len(nodes), slots)
        return settle(graph, nodes, part, snapshot.assignment if snapshot else None)

    def _parts(self, graph: IndexedGraph, nodes: Sequence[Node]) -> list[int]:
        if len(nodes) == 1 or not len(graph):
            return [0] * len(graph)
        metis = _load()
        starts = [0]
        ends: list[int] = []
        for near in graph.near:
            ends += near
            starts.append(len(ends))
        options = metis.Options()
        options.seed = self.seed
        if self.imbalance_max is not None:
            options.ufactor = max(1, round(self.imbalance_max * _PER_MILLE))
        capacity = sum(node.capacity for node in nodes)
        _, part = metis.part_graph(
            len(nodes),
            metis.CSRAdjacency(starts, ends),
            vweights=_whole(graph.weight),
            eweights=_whole(rate for near in graph.near for rate in near.values()),
            tpwgts=[node.capacity / capacity for node in nodes],
            recursive=self.recursive,
            options=options,
        )
        return [int(p) for p in part]


def _load() -> Any:
    try:
        return import_module("pymetis")
    except ImportError:
        raise PartitionerMissingError(
            "Policy 'metis' needs the package pymetis, which is not installed.",
            "Install tailrace[metis], or use the policy 'turbostream'.",
        ) from None


def _whole(weights: Iterable[float]) -> list[int]:
    """Scale to whole numbers; weights that are whole already and small enough stay as they are."""
    weights = list(weights)
    total = sum(weights)
    if total <= _TOTAL_MAX and all(weight == int(weight) for weight in weights):
        scale = 1.0
    else:
        scale = _TOTAL_MAX / total if total else 1.0
    # METIS wants edge weights above zero.
    return [max(1, round(weight * scale)) for weight in weights]
