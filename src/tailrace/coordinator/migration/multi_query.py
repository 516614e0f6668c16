"""Several queries on one session as one: a new one is placed with regard to the others, and all may be placed again.

Queries enter when they run and leave when they end; one session's queries know of each other through this module and of
no others. ``busy_by_host`` is what a new query's placement goes by. ``moves_together`` is StroMAX's Rebalance (a),
section 4.2: the global graph of all running topologies with measured weights is partitioned as one, and each query gets
the moves that bring its tasks there. Pure but for the list of who runs.

Changed from the paper: any policy may do the partitioning, since the paper's own deals equal topologies out evenly
again; a query's task can only go where the query has a worker, so one that the policy wants elsewhere stays; and a task
that stays on its node keeps its worker.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tailrace.coordinator.steering.graphs import assignment_of, slots_by_host, task_graph, task_id
from tailrace.coordinator.steering.placement_policy import placed_by
from tailrace.placement.model import Assignment, Node, TaskGraph
from tailrace.placement.snapshot import Snapshot
from tailrace.receiving.shared import shares

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.operations.task_move import Wanted
    from tailrace.program.program import Program

_US_PER_S = 1e6
_V = TypeVar("_V")


@dataclass(frozen=True)
class Running:
    """A query as placement sees it beside others."""

    id: str
    program: Program
    placement: Sequence[Sequence[int]]
    hosts: Mapping[int, str]
    snapshot: Snapshot | None


class Movable(Protocol):
    """What a query lets others ask of it."""

    @property
    def brain(self) -> CoordinatorBrain:
        """Its coordinator's brain, to be looked at."""
        ...

    def move_all(self, wanted: Sequence[Wanted], why: str) -> list[dict[str, Any]]:
        """Carry moves out and tell how that went."""
        ...


class Registry:
    """The running queries of this process, by session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, dict[str, Movable]] = {}

    def enter(self, session: str, query: str, movable: Movable) -> None:
        """A query has begun; one without a session is alone."""
        if session:
            with self._lock:
                self._queries.setdefault(session, {})[query] = movable

    def leave(self, session: str, query: str) -> None:
        """A query has ended."""
        with self._lock:
            known = self._queries.get(session, {})
            known.pop(query, None)
            if not known:
                self._queries.pop(session, None)

    def running(self, session: str, *, besides: str = "") -> list[Running]:
        """What runs on a session now."""
        found = []
        for query, movable in self._of(session).items():
            brain = movable.brain
            if query != besides and brain.state == "running":
                snapshot = brain.measured.snapshot(brain.placement, brain.hosts)
                found.append(Running(query, brain.program, brain.placement, brain.hosts, snapshot))
        return found

    def _of(self, session: str) -> dict[str, Movable]:
        with self._lock:
            return dict(self._queries.get(session, {}))

    def rebalance(self, session: str, policy: str) -> dict[str, list[dict[str, Any]]]:
        """Place all queries of a session as one graph and move what has another place then, one query at a time."""
        wanted = moves_together(self.running(session), policy)
        queries = self._of(session)
        return {
            query: queries[query].move_all(moves, f"placed by {policy} together with {len(wanted) - 1} more")
            for query, moves in wanted.items()
            if moves and query in queries
        }


REGISTRY = Registry()


def busy_by_host(queries: Iterable[Running]) -> dict[str, float]:
    """Seconds of work per second that running queries have on each node, as far as it was measured."""
    found: dict[str, float] = {}
    for query in queries:
        if query.snapshot is None or query.snapshot.assignment is None:
            continue
        for task, cost_us in query.snapshot.cpu_us_per_tuple.items():
            node = query.snapshot.assignment.node_of[task]
            found[node] = found.get(node, 0.0) + cost_us * query.snapshot.tuples_in_per_s.get(task, 0.0) / _US_PER_S
    return found


def beside(nodes: Iterable[Node], busy: Mapping[str, float]) -> list[Node]:
    """The nodes as a newcomer finds them: its workers share the processors with what is busy there already."""
    return [
        Node(
            name=node.name,
            workers=node.workers,
            speed=node.speed * node.workers / (node.workers + busy.get(node.name, 0.0)),
            slots=node.slots,
        )
        for node in nodes
    ]


def moves_together(queries: Sequence[Running], policy: str = "auto") -> dict[str, list[Wanted]]:
    """The moves of every query that bring all of them to one placement of their global graph."""
    if not queries:
        return {}
    graph = TaskGraph.union(_named(query) for query in queries)
    placed = placed_by(policy, graph, _nodes(queries), _snapshot(queries))
    return {query.id: _wanted(query, placed) for query in queries}


def _named(query: Running) -> TaskGraph:
    graph = task_graph(query.program)
    return TaskGraph(query.id, graph.vertices, graph.edges, graph.streams)


def _nodes(queries: Iterable[Running]) -> list[Node]:
    workers: Counter[str] = Counter()
    for query in queries:
        workers.update(query.hosts.values())
    return [Node(name=name, workers=count) for name, count in sorted(workers.items())]


def _snapshot(queries: Sequence[Running]) -> Snapshot:
    """All that was measured, under the names of the global graph; speeds are the mean of what queries found."""
    known = [(f"{query.id}/", query.snapshot) for query in queries if query.snapshot is not None]
    speeds: dict[str, list[float]] = {}
    for _, each in known:
        for node, speed in each.node_speed.items():
            speeds.setdefault(node, []).append(speed)
    places = [(f"{query.id}/", assignment_of(query.placement, query.hosts)) for query in queries]
    return Snapshot(
        cpu_us_per_tuple=_merged((name, each.cpu_us_per_tuple) for name, each in known),
        tuples_in_per_s=_merged((name, each.tuples_in_per_s) for name, each in known),
        edges=_merged_pairs((name, each.edges) for name, each in known),
        remainder=_merged_pairs((name, each.remainder) for name, each in known),
        node_speed={node: sum(found) / len(found) for node, found in speeds.items()},
        assignment=Assignment(
            _merged((name, each.node_of) for name, each in places),
            _merged((name, each.worker_of) for name, each in places),
        ),
    )


def _merged(parts: Iterable[tuple[str, Mapping[str, _V]]]) -> dict[str, _V]:
    return {prefix + key: value for prefix, part in parts for key, value in part.items()}


def _merged_pairs(parts: Iterable[tuple[str, Mapping[tuple[str, str], _V]]]) -> dict[tuple[str, str], _V]:
    return {(prefix + a, prefix + b): value for prefix, part in parts for (a, b), value in part.items()}


def _wanted(query: Running, placed: Assignment) -> list[Wanted]:
    """What one query has to move: to the least filled of its workers on the wanted node, if it has one there."""
    slots = slots_by_host(query.hosts)
    filled = Counter(slot for row in query.placement for slot in row)
    found: list[Wanted] = []
    for stage, row in enumerate(query.placement):
        if not _movable(query.program, stage):
            continue
        for task, slot in enumerate(row):
            node = placed.node_of[f"{query.id}/{task_id(stage, task)}"]
            if node == query.hosts[slot] or node not in slots:
                continue
            target = min(slots[node], key=lambda each: (filled[each], each))
            filled[slot] -= 1
            filled[target] += 1
            found.append((stage, task, target))
    return found


def _movable(program: Program, number: int) -> bool:
    """A source that cannot be opened elsewhere stays, and so do tasks that take from one queue."""
    stage, policy = program.plan.stages[number], program.policy
    if stage.is_source:
        return bool(getattr(stage.head.fn, "movable", True))
    return not shares(stage, program.plan.inputs[number], policy.inbox, policy.sharing)
