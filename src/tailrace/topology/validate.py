"""Checks of a whole topology, run before Spark starts: every mistake is a named error that says what to change.

``Topology.validate`` and the start of a query call it. It reads the topology and touches nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import nearest
from .callables import check_function
from .checks import check_key, check_spec
from .contracts import Sink
from .counts import upstream_first
from .errors import (
    CycleError,
    DanglingStreamError,
    DuplicateNameError,
    EmptyTopologyError,
    GroupingError,
    UnionError,
)
from .groupings import GROUPING_KINDS
from .operators import KEYED_VERBS, PORT_DEAD
from .ship import ship

if TYPE_CHECKING:
    from .graph import Topology
    from .operators import EdgeSpec, OperatorSpec

DIRECT_VERBS = frozenset({"map", "flat_map", "process", "keyed_process"})


def validate(topology: Topology) -> None:
    """Check that a topology can run, or raise a TopologyError."""
    _check_not_empty(topology)
    for name, spec in topology.operators.items():
        if spec.name != name:
            raise DuplicateNameError(
                f"Operator {spec.name!r} is filed under the name {name!r}.",
                "Draw operators with the methods of streams.",
            )
        check_spec(spec)
    for edge in topology.edges:
        _check_ends(topology, edge)
    _check_no_edge_twice(topology)
    _check_acyclic(topology)
    _check_all_read(topology)
    for edge in topology.edges:
        _check_grouping(topology, edge)
    ship(topology)


def check_ends(topology: Topology, *, durable: bool = False) -> None:
    """Look, on the driver and before Spark starts, whether sources find their input and sinks can write.

    Unlike ``validate`` this touches files: it lists the partitions of every source and asks every sink.
    """
    for spec in topology.operators.values():
        if spec.kind == "source":
            spec.fn.partitions()
        elif spec.kind == "sink" and isinstance(spec.fn, Sink):
            spec.fn.preflight_durable() if durable else spec.fn.preflight()
        elif spec.kind == "sink" and hasattr(spec.fn, "preflight"):  # anything with a sink's methods is one
            spec.fn.preflight()


def _check_not_empty(topology: Topology) -> None:
    if not any(spec.kind == "source" for spec in topology.operators.values()):
        raise EmptyTopologyError(
            f"Topology {topology.name!r} needs at least one source and has none.",
            "Begin with flow.source(...), and end each stream with .sink(...).",
        )


def _check_ends(topology: Topology, edge: EdgeSpec) -> None:
    for name in (edge.src, edge.dst):
        if name not in topology.operators:
            raise DanglingStreamError(
                f"The edge from {edge.src!r} to {edge.dst!r} ends at {name!r}, which is no operator of the topology.",
                nearest(name, topology.operators),
            )
    if topology.operators[edge.dst].kind == "source":
        raise DanglingStreamError(
            f"The edge from {edge.src!r} leads into the source {edge.dst!r}.", "Sources only begin streams."
        )
    ports = topology.operators[edge.src].ports
    if edge.port not in ports:
        raise DanglingStreamError(
            f"The edge to {edge.dst!r} reads port {edge.port!r} of {edge.src!r}, which has no such port.",
            nearest(edge.port, ports) if ports else "Sinks only end streams.",
        )


def _check_no_edge_twice(topology: Topology) -> None:
    seen: set[tuple[str, str, str]] = set()
    for edge in topology.edges:
        ends = (edge.src, edge.port, edge.dst)
        if ends in seen:
            raise UnionError(
                f"There are two edges from port {edge.port!r} of {edge.src!r} to {edge.dst!r}.",
                "Keep one; to double values use .flat_map(lambda v: (v, v)).",
            )
        seen.add(ends)


def _check_acyclic(topology: Topology) -> None:
    left = set(topology.operators).difference(upstream_first(topology))
    if not left:
        return
    inputs = {edge.dst: edge.src for edge in topology.edges if edge.src in left and edge.dst in left}
    path = [next(iter(inputs))]
    while path[-1] not in path[:-1]:  # walking upstream among what is left must come round
        path.append(inputs[path[-1]])
    circle = path[path.index(path[-1]) :][::-1]
    raise CycleError(
        f"A topology must have no cycle, found {' -> '.join(circle)}.",
        "Remove one of these edges; to feed results back, write them to a sink that a source reads.",
    )


def _check_all_read(topology: Topology) -> None:
    read = {(edge.src, edge.port) for edge in topology.edges}
    fed = {edge.dst for edge in topology.edges}
    for name, spec in topology.operators.items():
        if spec.kind != "source" and name not in fed:
            raise DanglingStreamError(
                f"Operator {name!r} ({spec.verb}) reads no stream.",
                "Draw it with a method of the stream it is to read.",
            )
        if spec.kind != "sink" and not any((name, port) in read for port in spec.ports):
            raise DanglingStreamError(
                f"The output of operator {name!r} ({spec.verb}) is read by nobody.",
                "End it with .sink(...); tr.sinks.discard() throws it away on purpose.",
            )
        if spec.on_error == "dead_letter" and (name, PORT_DEAD) not in read:
            raise DanglingStreamError(
                f"Operator {name!r} has on_error='dead_letter', and its dead letters are read by nobody.",
                "Read them with .dead_letters().sink(...), or use on_error='skip' to drop and count them.",
            )


def _check_grouping(topology: Topology, edge: EdgeSpec) -> None:
    kind, fn = edge.grouping.kind, edge.grouping.fn
    where = f"between {edge.src!r} and {edge.dst!r}"
    src, dst = topology.operators[edge.src], topology.operators[edge.dst]
    if kind not in GROUPING_KINDS:
        raise GroupingError(f"The grouping {where} is {kind!r}, which is unknown.", nearest(kind, GROUPING_KINDS))
    if kind == "fields":
        check_key(edge.dst, fn)
    elif kind == "custom":
        _check_custom(edge)
    elif fn is not None:
        raise GroupingError(
            f"The grouping {where} is {kind!r}, which takes no function.", "Use key_by(fn) or group_by(fn) instead."
        )
    if dst.verb in KEYED_VERBS and (kind != "fields" or fn is not dst.key):
        raise GroupingError(
            f"Operator {edge.dst!r} keeps state per key, and its input from {edge.src!r} is grouped by {kind!r}.",
            "Draw it with .key_by(fn), which sends each key to one task.",
        )
    if kind == "direct":
        _check_direct(src, edge)


def _check_custom(edge: EdgeSpec) -> None:
    if not callable(edge.grouping.fn):
        raise GroupingError(
            f"group_by in front of operator {edge.dst!r} needs a function, found {edge.grouping.fn!r}.",
            "Give a function fn(value, n_tasks) that returns the index of a task, or several.",
        )
    check_function(edge.dst, "group_by", edge.grouping.fn, ("value", "n_tasks"), may_yield=True, may_await=False)


def _check_direct(src: OperatorSpec, edge: EdgeSpec) -> None:
    if src.verb not in DIRECT_VERBS or edge.port == PORT_DEAD:
        emits = "dead letters" if edge.port == PORT_DEAD else f"what a {src.verb} emits"
        raise GroupingError(
            f"A direct stream carries tr.direct(task, value), and {src.name!r} sends {emits} to {edge.dst!r}.",
            "Put a .map that returns tr.direct(task, value) in front, or use .group_by(fn).",
        )
