"""Node-local shuffle: a sender prefers the target's tasks in its own worker, then on its node, then all of them.

Every sender keeps its tuples as near as it can without giving any task more than ``skew_max``
times its even share, so that being near never makes a task the slowest by much; what would be over goes to the tasks
that have less than their share. Workers build their rules from it and placement predicts traffic with it, so both speak
of the same shares. Pure.

Edges into guarded tasks go by root, and there two incarnations of a root have to meet. They do as long as whatever
comes of a root has stayed in its source's worker or on its node: then all who send it share one row of shares, and the
root's hash picks from that row. Behind an edge that may leave the node (keyed, balanced, spilling over, with replays
that take another way, or ``local``, which follows tasks that move) all tasks take part again.

When it loses: on tasks of unequal speed, which it does not see (choose a balancing rule, which takes its place); and
where all senders stand on few nodes, since most of what they send is then over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

#: Node and worker of a task.
Place = tuple[int, int]
#: The shares of a target's tasks in what one sender gives it; they add up to 1.
Row = tuple[float, ...]
#: ``free``: any task may take any tuple. ``detour``: so, but replays go elsewhere. ``root``: incarnations have to meet.
#: ``local``: own worker where it can be, whatever the setting. ``spread``: the tuples or a balancer decide.
Rule = Literal["free", "detour", "root", "local", "spread"]

_WORKER, _NODE, _ANY = range(3)
#: Shares below this are rounding.
_NONE = 1e-9


class NearEdge(NamedTuple):
    """An edge between two stages, by their numbers in upstream-first order, and how its tuples find their task.

    ``pooled``: tasks of the target take from each other's queues, so that a tuple may end up with another one of the
    node than it was sent to.
    """

    id: int
    src: int
    dst: int
    rule: Rule
    pooled: bool = False


def places_of(placement: Sequence[Sequence[int]], hosts: Mapping[int, str]) -> list[list[Place]]:
    """Node number and slot of every task; nodes are numbered by their names."""
    number = {host: at for at, host in enumerate(sorted(set(hosts.values())))}
    return [[(number[hosts[slot]], slot) for slot in stage] for stage in placement]


def near_rows(
    places: Sequence[Sequence[Place]], edges: Sequence[NearEdge], level: str, skew_max: float
) -> dict[int, list[Row]]:
    """Per edge that keeps near, the row of each sending task; ``level`` is ``worker`` or ``node``.

    Rates are structural: sources emit alike, everyone passes on what it gets.
    """
    inputs: list[list[float]] = [[0.0] * len(stage) for stage in places]
    fed = {edge.dst for edge in edges}
    reach = [_WORKER] * len(places)
    found: dict[int, list[Row]] = {}
    for edge in sorted(edges, key=lambda each: (each.src, each.id)):
        senders, targets = places[edge.src], places[edge.dst]
        sent = inputs[edge.src] if edge.src in fed else [1.0] * len(senders)
        rows = _rows_of(edge.rule, senders, targets, sent, level, skew_max, reach[edge.src])
        if rows is not None:
            found[edge.id] = rows
        own = max(_NODE if edge.pooled else _WORKER, _reach_of(edge.rule, senders, targets, rows))
        reach[edge.dst] = max(reach[edge.dst], reach[edge.src], own)
        even = (1.0 / len(targets),) * len(targets)
        for rate, row in zip(sent, rows or [even] * len(senders), strict=True):
            for task, share in enumerate(row):
                inputs[edge.dst][task] += rate * share
    return found


def following(edges: Sequence[NearEdge], near: Collection[int]) -> frozenset[int]:
    """The edges whose shares may go by where tasks are now; those of the others by where tasks were placed first.

    ``near`` are the edges that have shares. Two incarnations of a root have to meet at one task even if tasks move
    between them, so the shares of edges by root stay, and so do those on the way to such edges: they say at which node
    a root arrives there.
    """
    tied: set[int] = set()
    for edge in sorted(edges, key=lambda each: each.src, reverse=True):
        if edge.dst in tied or (edge.rule == "root" and edge.id in near):
            tied.add(edge.src)
    return frozenset(edge.id for edge in edges if edge.id in near and edge.rule != "root" and edge.dst not in tied)


def _rows_of(
    rule: Rule,
    senders: Sequence[Place],
    targets: Sequence[Place],
    sent: Sequence[float],
    level: str,
    skew_max: float,
    reach: int,
) -> list[Row] | None:
    """The rows of an edge's senders, or None where it does not keep near."""
    if rule in {"local", "spread"} or len(targets) == 1 or (rule == "root" and reach == _ANY):
        return None
    # Who sends a root that has left its worker is not known, only the node: all its workers must have the same row.
    origins = [(node, -1) if rule == "root" and reach == _NODE else (node, worker) for node, worker in senders]
    if origins != list(senders) and level == "worker":
        return None
    supply: dict[Place, float] = {}
    for origin, rate in zip(origins, sent, strict=True):
        supply[origin] = supply.get(origin, 0.0) + rate
    shares = near_shares(supply, targets, level, skew_max)
    return [shares[origin] for origin in origins]


def near_shares(
    supply: Mapping[Place, float], targets: Sequence[Place], level: str, skew_max: float
) -> dict[Place, Row]:
    """Split what each place sends over the target's tasks, nearest first, none beyond ``skew_max`` even shares."""
    total = sum(supply.values())
    even = 1.0 / len(targets)
    supply = {origin: rate / total if total else 0.0 for origin, rate in supply.items()}
    got = [0.0] * len(targets)
    left = dict(supply)
    given = {origin: [0.0] * len(targets) for origin in supply}
    for depth in (2, 1) if level == "node" else (2,):  # the same worker of the same node, then the same node
        groups: dict[tuple[int, ...], list[Place]] = {}
        for origin in supply:
            groups.setdefault(origin[:depth], []).append(origin)
        near: dict[tuple[int, ...], list[int]] = {}
        for task, place in enumerate(targets):
            near.setdefault(place[:depth], []).append(task)
        for key, origins in groups.items():
            _pour(origins, {task: skew_max * even - got[task] for task in near.get(key, ())}, left, given, got)
    # All that is left fits: tasks below their even share lack as much as is left, or more.
    _pour(list(supply), {task: even - got[task] for task in range(len(targets))}, left, given, got)
    return {origin: _as_shares(shares) for origin, shares in given.items()}


def _as_shares(given: Sequence[float]) -> Row:
    """What one origin gave, as parts of the whole; an origin that sends nothing would send evenly."""
    whole = sum(given)
    return tuple(round(each / whole, 12) if whole else 1.0 / len(given) for each in given)


def _pour(
    origins: Sequence[Place],
    room: Mapping[int, float],
    left: dict[Place, float],
    given: dict[Place, list[float]],
    got: list[float],
) -> None:
    """Give what the origins have left to tasks in proportion to their room, as far as it goes."""
    room = {task: space for task, space in room.items() if space > _NONE}
    supply, space = sum(left[origin] for origin in origins), sum(room.values())
    amount = min(supply, space)
    if amount <= 0:
        return
    for origin in origins:
        part = left[origin] / supply
        for task, each in room.items():
            given[origin][task] += amount * part * each / space
        left[origin] -= amount * part
    for task, each in room.items():
        got[task] += amount * each / space


def _reach_of(rule: Rule, senders: Sequence[Place], targets: Sequence[Place], rows: Sequence[Row] | None) -> int:
    """How far from its source's place a tuple may be behind this edge."""
    if rows is None or rule == "detour":
        return _ANY
    reach = _WORKER
    for (node, worker), row in zip(senders, rows, strict=True):
        for place, share in zip(targets, row, strict=True):
            if share > _NONE:
                reach = max(reach, _ANY if place[0] != node else _NODE if place[1] != worker else _WORKER)
    return reach
