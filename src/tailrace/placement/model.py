"""The plain data of placement: tasks and the traffic between them, nodes with their workers, and who goes where.

Policies take these and return these; readers, the accounting and the runtime build them. Everything here is immutable
by convention and by type, holds only standard-library values, and touches nothing outside itself.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from .errors import CapacityError, NodeSpecError, PlacementError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class TaskVertex:
    """One parallel instance of an operator; ``cpu`` is its load in any unit that all tasks of a graph share."""

    id: str
    operator: str
    index: int
    cpu: float = 1.0


class TaskEdge(NamedTuple):
    """What one task sends another each second."""

    src: str
    dst: str
    tuples_per_s: float = 1.0
    bytes_per_s: float = 1.0


class OperatorEdge(NamedTuple):
    """One operator's subscription to another: all task edges between the two follow from its grouping."""

    src: str
    dst: str
    grouping: str = "shuffle"


@dataclass(frozen=True)
class TaskGraph:
    """Tasks and directed traffic. A METIS graph has no directions: its edges run from the lower to the higher vertex.

    ``streams`` say which operators' edges follow a routing rule; a graph read from a METIS file has none.
    """

    name: str
    vertices: tuple[TaskVertex, ...]
    edges: tuple[TaskEdge, ...] = ()
    streams: tuple[OperatorEdge, ...] = ()

    def __post_init__(self) -> None:
        if len(self.position) != len(self.vertices):
            twice = next(name for name, n in Counter(v.id for v in self.vertices).items() if n > 1)
            raise PlacementError(f"Task ids must be distinct, but {twice!r} occurs twice.", "Prefix ids by topology.")
        known = self.position
        for edge in self.edges:
            if edge.src not in known or edge.dst not in known:
                raise PlacementError(
                    f"Edge {edge.src} -> {edge.dst} names a task that the graph {self.name!r} does not have.",
                    "List every task among the vertices.",
                )

    @cached_property
    def position(self) -> dict[str, int]:
        """Index of each task in ``vertices``."""
        return {vertex.id: i for i, vertex in enumerate(self.vertices)}

    @cached_property
    def operators(self) -> dict[str, tuple[TaskVertex, ...]]:
        """Tasks by operator, in order of first appearance."""
        found: dict[str, list[TaskVertex]] = {}
        for vertex in self.vertices:
            found.setdefault(vertex.operator, []).append(vertex)
        return {name: tuple(tasks) for name, tasks in found.items()}

    @classmethod
    def union(cls, graphs: Iterable[TaskGraph], name: str = "global") -> TaskGraph:
        """Put all running topologies into one graph (StroMAX's global graph); ids get the topology's name in front."""
        renamed = [graph.prefixed(f"{graph.name}/") for graph in graphs]
        return cls(
            name,
            tuple(chain.from_iterable(graph.vertices for graph in renamed)),
            tuple(chain.from_iterable(graph.edges for graph in renamed)),
            tuple(chain.from_iterable(graph.streams for graph in renamed)),
        )

    def prefixed(self, prefix: str) -> TaskGraph:
        """Return the same graph with ``prefix`` before every task id and operator name."""
        return TaskGraph(
            self.name,
            tuple(TaskVertex(prefix + v.id, prefix + v.operator, v.index, v.cpu) for v in self.vertices),
            tuple(TaskEdge(prefix + e.src, prefix + e.dst, e.tuples_per_s, e.bytes_per_s) for e in self.edges),
            tuple(OperatorEdge(prefix + s.src, prefix + s.dst, s.grouping) for s in self.streams),
        )


@dataclass(frozen=True, kw_only=True)
class Node:
    """One host. ``workers`` are its processes; ``slots`` caps its tasks (None: many tasks may share a worker)."""

    name: str
    workers: int = 1
    speed: float = 1.0
    slots: int | None = None

    def __post_init__(self) -> None:
        if self.workers < 1 or self.speed <= 0 or (self.slots is not None and self.slots < 0):
            raise NodeSpecError(
                f"Node {self.name!r} needs workers >= 1, speed > 0 and slots >= 0, "
                f"found {self.workers}, {self.speed}, {self.slots}.",
                "Leave out nodes that cannot run anything.",
            )

    @property
    def capacity(self) -> float:
        """Relative share of the load this node should carry."""
        return self.workers * self.speed


_SPEC = re.compile(r"(?P<nodes>\d+)x(?P<workers>\d+)(?:x(?P<slots>\d+))?")


def parse_nodes(text: str) -> tuple[Node, ...]:
    """Read ``8x4`` (8 nodes of 4 workers) or ``40x1x10`` (and at most 10 tasks on each node)."""
    found = _SPEC.fullmatch(text.strip())
    if found is None or int(found["nodes"]) < 1 or int(found["workers"]) < 1:
        raise NodeSpecError(
            f"Nodes must be written like 8x4 (nodes x workers) or 40x1x10 (with task slots), found {text!r}.",
            "Give both numbers, each at least 1.",
        )
    slots = None if found["slots"] is None else int(found["slots"])
    width = len(str(int(found["nodes"]) - 1))
    return tuple(
        Node(name=f"n{i:0{width}d}", workers=int(found["workers"]), slots=slots) for i in range(int(found["nodes"]))
    )


def check_nodes(nodes: Sequence[Node], tasks: int) -> None:
    """Refuse an empty or ambiguous node list, and one whose slots cannot hold the tasks."""
    names = {node.name for node in nodes}
    if not nodes or len(names) != len(nodes):
        raise NodeSpecError(
            f"Expected at least one node and distinct names, found {[n.name for n in nodes]}.", "Name each node once."
        )
    if all(node.slots is not None for node in nodes):
        slots = sum(node.slots or 0 for node in nodes)
        if slots < tasks:
            raise CapacityError(
                f"{tasks} tasks need {tasks} slots, but the nodes have {slots}.",
                "Add nodes or slots, lower the parallelism, or leave slots unset so that tasks share workers.",
            )


@dataclass(frozen=True)
class Assignment:
    """Where every task goes: its node and, on that node, the index of its worker."""

    node_of: Mapping[str, str]
    worker_of: Mapping[str, int]

    def place_of(self, task: str) -> tuple[str, int]:
        """Node and worker index of one task."""
        return self.node_of[task], self.worker_of[task]

    def tasks_on(self, node: str) -> tuple[str, ...]:
        """Tasks of one node, in the order of the assignment."""
        return tuple(task for task, at in self.node_of.items() if at == node)

    @cached_property
    def by_worker(self) -> dict[tuple[str, int], tuple[str, ...]]:
        """Tasks of each worker that has any."""
        found: dict[tuple[str, int], list[str]] = {}
        for task, node in self.node_of.items():
            found.setdefault((node, self.worker_of[task]), []).append(task)
        return {place: tuple(tasks) for place, tasks in found.items()}


def spread_over_workers(graph: TaskGraph, nodes: Sequence[Node], part: Sequence[int]) -> Assignment:
    """Turn a node index per vertex into an assignment, dealing each node's tasks to its workers in turn.

    This is TurboStream's rule (section V.C): round robin over the workers of a node, in the graph's task order.
    """
    dealt = [0] * len(nodes)
    node_of: dict[str, str] = {}
    worker_of: dict[str, int] = {}
    for vertex, at in zip(graph.vertices, part, strict=True):
        node_of[vertex.id] = nodes[at].name
        worker_of[vertex.id] = dealt[at] % nodes[at].workers
        dealt[at] += 1
    return Assignment(node_of, worker_of)
