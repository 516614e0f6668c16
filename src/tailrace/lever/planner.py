"""The brain of Lever: a request per source and batch in, pieces out; one per stateful stage in, homes of its state out.

What each query taught it lies here.

Sans-I/O: the apply module hands it requests from the JVM, tests and the simulator hand it their own. It touches
nothing but its own memory, which is bounded.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from .observe import TaskEnd, observe
from .plans import BatchPlan, ExecutorNode, Memory
from .split import Piece, Unit, cut, pin
from .state_locations import StateBook, speeds_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .observe import BatchRun
    from .predict import NodeClass

QUERIES_MAX = 256
HISTORY_MAX = 512


class SourceRequest(msgspec.Struct, frozen=True, tag_field="kind", tag="source"):
    """What the shim asks before a source of a batch is read."""

    query: str
    batch: int
    fixed: str
    """Why partitions must stay as they are; empty if they may be cut and regrouped."""
    units: list[Unit]
    executors: list[tuple[str, int]]
    ended: list[TaskEnd]
    tasks_min: int = 0
    """How many tasks there should be at least where that is possible; 0 if one per core will do."""


class StateRequest(msgspec.Struct, frozen=True, tag_field="kind", tag="state"):
    """What the shim asks before a stateful stage of a batch, after the sources of that batch."""

    query: str
    batch: int
    operator: int
    homes: list[str]
    """Per partition the executor that holds its state; empty if none does."""
    executors: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ExecutorStatus:
    """One executor in one batch: what was foreseen and what came."""

    executor: str
    node_class: NodeClass | None
    capacity: float
    """Units (rows, offsets or bytes) per millisecond."""
    share: float
    predicted_ms: float | None
    actual_ms: float | None = None
    states: int = 0
    """Partitions of state that were placed there, over all stateful stages."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """One planned batch of one query."""

    batch: int
    fixed: str
    executors: tuple[ExecutorStatus, ...]


@dataclass(slots=True)
class _Book:
    """All that is kept about one query."""

    memory: Memory = field(default_factory=Memory)
    planned: dict[int, dict[str, float]] = field(default_factory=dict)
    learned_to: int = -1
    nodes: list[ExecutorNode] = field(default_factory=list)
    states: dict[int, StateBook] = field(default_factory=dict)
    batches: deque[BatchStatus] = field(default_factory=lambda: deque(maxlen=HISTORY_MAX))


class Planner:
    """Learns from task ends and decides pieces, for all queries of a session."""

    def __init__(self, plan: BatchPlan, *, state: bool = True) -> None:
        self.plan = plan
        self._state = state
        self._books: OrderedDict[str, _Book] = OrderedDict()
        self._lock = Lock()

    def decide(self, request: SourceRequest) -> list[Piece]:
        """Learn what ended since the last request, then split this batch's input."""
        with self._lock:
            book = self._book(request.query)
            self._learn(book, request.ended)
            book.nodes = nodes = _nodes(request.executors)
            total = sum(unit.size for unit in request.units)
            if not nodes or not total:
                return []
            book.memory = book.memory.without_all_but(node.executor for node in nodes)
            assignment = self.plan.assign(book.memory, nodes, float(total))
            pieces = (
                pin(request.units, assignment.loads)
                if request.fixed
                else cut(request.units, assignment.loads, nodes, request.tasks_min)
            )
            self._record(book, request, pieces, assignment.classes)
            return pieces

    def settle(self, request: StateRequest) -> list[str]:
        """Name the executor for every partition of a stateful stage; an empty name leaves it to Spark."""
        with self._lock:
            book = self._book(request.query)
            nodes = _nodes(request.executors)
            memory = book.memory.without_all_but(node.executor for node in nodes)
            if not self._state or not nodes or not memory.capacity:
                return [""] * len(request.homes)
            speeds = speeds_of(self.plan.assign(memory, nodes, 1.0).loads, nodes)
            placed = book.states.setdefault(request.operator, StateBook()).settle(request.homes, nodes, speeds)
            _note_states(book, request.batch, placed)
            return placed

    def learn(self, query: str, ended: list[TaskEnd]) -> None:
        """Take in task ends outside a request, when somebody looks at the status."""
        with self._lock:
            self._learn(self._book(query), ended)

    def history(self, query: str) -> list[BatchStatus]:
        """Return the planned batches of a query, oldest first."""
        with self._lock:
            book = self._books.get(query)
            return list(book.batches) if book else []

    def memory(self, query: str) -> Memory:
        """Return what the plan remembers of a query."""
        with self._lock:
            return self._book(query).memory

    def _book(self, query: str) -> _Book:
        book = self._books.setdefault(query, _Book())
        self._books.move_to_end(query)
        while len(self._books) > QUERIES_MAX:
            self._books.popitem(last=False)
        return book

    def _learn(self, book: _Book, ended: list[TaskEnd]) -> None:
        # Task ends that come after their batch was learned are a part of it only, and would look like a quick batch.
        fresh = [task for task in ended if task.batch > book.learned_to]
        for run in observe(fresh, book.planned):
            book.memory = self.plan.learn(book.memory, run)
            book.learned_to = max(book.learned_to, run.batch)
            _note_actual(book, run)
        self._learn_states(book, [task for task in ended if task.operator >= 0])

    def _learn_states(self, book: _Book, ended: list[TaskEnd]) -> None:
        if ended and book.nodes and book.memory.capacity:
            speeds = speeds_of(self.plan.assign(book.memory, book.nodes, 1.0).loads, book.nodes)
            for operator in {task.operator for task in ended}:
                own = (task for task in ended if task.operator == operator)
                book.states.setdefault(operator, StateBook()).learn(own, speeds)

    def _record(
        self, book: _Book, request: SourceRequest, pieces: list[Piece], classes: Mapping[str, NodeClass]
    ) -> None:
        planned = book.planned.setdefault(request.batch, {})
        for piece in pieces:
            size = sum(end - start for _, start, end in piece.ranges)
            planned[piece.executor] = planned.get(piece.executor, 0.0) + size
        for batch in sorted(book.planned)[:-4]:
            del book.planned[batch]
        total = sum(planned.values())
        capacity = book.memory.capacity
        rows = tuple(
            ExecutorStatus(
                executor=executor,
                node_class=classes.get(executor),
                capacity=capacity.get(executor, 0.0),
                share=planned.get(executor, 0.0) / total if total else 0.0,
                predicted_ms=planned.get(executor, 0.0) / capacity[executor] if capacity.get(executor) else None,
            )
            for executor, _ in request.executors
        )
        if book.batches and book.batches[-1].batch == request.batch:
            book.batches.pop()
        book.batches.append(BatchStatus(request.batch, request.fixed, rows))


def _nodes(executors: list[tuple[str, int]]) -> list[ExecutorNode]:
    return [ExecutorNode(executor, max(1, cores)) for executor, cores in executors]


def _note_states(book: _Book, batch: int, placed: list[str]) -> None:
    if book.batches and book.batches[-1].batch == batch:
        status = book.batches[-1]
        rows = tuple(replace(row, states=row.states + placed.count(row.executor)) for row in status.executors)
        book.batches[-1] = replace(status, executors=rows)


def _note_actual(book: _Book, run: BatchRun) -> None:
    for index, status in enumerate(book.batches):
        if status.batch == run.batch:
            rows = tuple(replace(row, actual_ms=run.finish_ms.get(row.executor)) for row in status.executors)
            book.batches[index] = BatchStatus(status.batch, status.fixed, rows)
