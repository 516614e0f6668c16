"""How operator rates and groupings become traffic between tasks: the routing rule that placement predicts with.

Readers of topology files, the runtime and the simulator call ``expand`` to get a task graph from operators and streams.
Pure functions over plain data; nothing here looks at a placement (node-local shuffle does, in ``accounting``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.errors import nearest

from .errors import CyclicGraphError, TopologyFileError
from .model import OperatorEdge, TaskEdge, TaskGraph, TaskVertex

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SHUFFLED = frozenset({"shuffle", "local", "auto"})
# How the runtime carries a shuffle out where it is not free: by root into guarded tasks, with another way for replays,
# or by a balancer's weights.
CARRIED_OUT = frozenset({"root", "detour", "balanced"})
# Split evenly whatever the tuples hold, so measured edges are replaced by the rule.
EVEN_GROUPINGS = _SHUFFLED | CARRIED_OUT
# What the tuples or the user decide is taken as even until somebody has measured it.
KEYED_GROUPINGS = frozenset({"fields", "partial_key", "direct", "custom"})
GROUPINGS = _SHUFFLED | KEYED_GROUPINGS | {"all", "global"}

TUPLE_BYTES_DEFAULT = 100.0


@dataclass(frozen=True, kw_only=True)
class OperatorProfile:
    """What is known of an operator before it runs. ``rate_tps`` counts only for operators that nobody feeds."""

    id: str
    tasks: int = 1
    selectivity: float = 1.0
    cost: float = 1.0
    rate_tps: float = 1.0
    tuple_bytes: float = TUPLE_BYTES_DEFAULT


def task_id(operator: str, index: int) -> str:
    """Name one task of an operator."""
    return f"{operator}[{index}]"


def expand(name: str, operators: Sequence[OperatorProfile], streams: Iterable[OperatorEdge]) -> TaskGraph:
    """Build the task graph: every task's load is its input rate x cost, every edge carries its share of the output."""
    streams = tuple(stream._replace(grouping=grouping_kind(stream.grouping)) for stream in streams)
    by_id = _check(name, operators, streams)
    inputs = {op.id: [0.0] * op.tasks for op in operators}
    vertices: dict[str, list[TaskVertex]] = {}
    edges: list[TaskEdge] = []
    fed = {stream.dst for stream in streams}
    for op in _in_order(name, operators, streams):
        if op.id not in fed:
            inputs[op.id] = [op.rate_tps / op.tasks] * op.tasks
        vertices[op.id] = [
            TaskVertex(task_id(op.id, i), op.id, i, rate * op.cost) for i, rate in enumerate(inputs[op.id])
        ]
        for stream in (s for s in streams if s.src == op.id):
            sent = [rate * op.selectivity for rate in inputs[op.id]]
            for i, j, tuples in split(sent, by_id[stream.dst].tasks, stream.grouping):
                edge = TaskEdge(task_id(op.id, i), task_id(stream.dst, j), tuples, tuples * op.tuple_bytes)
                edges.append(edge)
                inputs[stream.dst][j] += tuples
    ordered = tuple(vertex for op in operators for vertex in vertices[op.id])
    return TaskGraph(name, ordered, tuple(edges), streams)


def split(sent: Sequence[float], targets: int, grouping: str) -> Iterable[tuple[int, int, float]]:
    """Yield (source index, target index, tuples/s) for what the source tasks send under a grouping."""
    for i, rate in enumerate(sent):
        if grouping == "global":
            yield i, 0, rate
        else:
            share = rate if grouping == "all" else rate / targets
            for j in range(targets):
                yield i, j, share


def grouping_kind(text: str) -> str:
    """Return ``fields`` for ``fields:word``; refuse a grouping that is not known."""
    kind = text.split(":", 1)[0]
    if kind not in GROUPINGS:
        raise TopologyFileError(
            f"Expected a grouping among {', '.join(sorted(GROUPINGS))}, found {text!r}.", nearest(kind, GROUPINGS)
        )
    return kind


def _check(
    name: str, operators: Sequence[OperatorProfile], streams: Sequence[OperatorEdge]
) -> dict[str, OperatorProfile]:
    by_id = {op.id: op for op in operators}
    if len(by_id) != len(operators):
        raise TopologyFileError(f"Operator ids of {name!r} must be distinct.", "Rename the one that occurs twice.")
    for op in operators:
        if op.tasks < 1 or min(op.selectivity, op.cost, op.rate_tps, op.tuple_bytes) < 0:
            raise TopologyFileError(
                f"Operator {op.id!r} needs at least one task and no negative figure, found {op}.", "Correct the figure."
            )
    for end in (end for stream in streams for end in stream[:2]):
        if end not in by_id:
            raise TopologyFileError(f"A stream of {name!r} names the operator {end!r}.", nearest(end, by_id))
    if len({stream[:2] for stream in streams}) != len(streams):
        raise TopologyFileError(
            f"Two streams of {name!r} join the same two operators.", "Merge them: their traffic adds up."
        )
    return by_id


def _in_order(
    name: str, operators: Sequence[OperatorProfile], streams: Sequence[OperatorEdge]
) -> list[OperatorProfile]:
    """Upstream operators first, otherwise as written."""
    waiting = {op.id: sum(stream.dst == op.id for stream in streams) for op in operators}
    by_id = {op.id: op for op in operators}
    ready = [op.id for op in operators if not waiting[op.id]]
    for operator in ready:
        for stream in streams:
            if stream.src == operator:
                waiting[stream.dst] -= 1
                if not waiting[stream.dst]:
                    ready.append(stream.dst)
    if len(ready) < len(operators):
        stuck = sorted(op for op, n in waiting.items() if n)
        raise CyclicGraphError(f"The streams of {name!r} run in a circle through {', '.join(stuck)}.", "Break it.")
    return [by_id[operator] for operator in ready]
