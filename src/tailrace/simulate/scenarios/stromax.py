"""StroMAX's section 5: six topologies on 40 nodes of 10 slots, rebalancing as one graph, and 5 to 40 nodes.

Stated: tasks, nodes, slots, 1 Gb/s links, a rate at which tasks are half used on average. Assumed: a node is one
worker, hops cost what TurboStream's Table I says (StroMAX gives no costs), operators' costs in ms, three bolts in SC.
The paper's scheduler meets a plain shuffle; what placement can gain shows with a node-local one, so both are run.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.placement.accounting import account
from tailrace.placement.model import Assignment, Node, OperatorEdge, TaskGraph, parse_nodes
from tailrace.placement.registry import by_name
from tailrace.placement.snapshot import Snapshot
from tailrace.placement.traffic import OperatorProfile

from ..comparison import ComparisonRow, PlotPanel, SimulationReport
from ..distributions import UniformWhole, Zipf
from ..engine import Engine
from ..model import Policies
from ..summary import medians, ratios_to
from .placed import TABLE_1, Drawing, model_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..results import SimulationResult

_UNIT_US = 1000.0
_USE_MEAN, _USE_MAX = 0.5, 0.8
LINK_BYTES_PER_S = 125e6
NODES, SLOTS = 40, 10
#: (operator, cost, tuples out per tuple in, bytes per tuple out), the source first; streams; tasks where stated.
_SHAPES: dict[str, tuple[list[tuple[str, float, float, float]], list[tuple[str, str, str]]]] = {
    "WC": (
        [("spout", 1, 1, 600), ("split", 2, 17, 50), ("count", 0.1, 0, 0)],
        [("spout", "split", "shuffle"), ("split", "count", "fields:word")],
    ),
    "TT": (
        [("spout", 1, 1, 10240), ("identity", 1, 1, 10240), ("anchor", 1, 0, 0)],
        [("spout", "identity", "shuffle"), ("identity", "anchor", "shuffle")],
    ),
    "TWTT": (
        [("spout", 1, 1, 300), ("prepare", 2, 0.9, 100), ("rank", 2, 0.1, 400), ("merge", 0.2, 0, 0)],
        [("spout", "prepare", "shuffle"), ("prepare", "rank", "fields:topic"), ("rank", "merge", "global")],
    ),
    "LP": (
        [("spout", 1, 1, 300), ("rules", 3, 1, 200), ("index", 2, 0, 0), ("counter", 1, 0, 0)],
        [("spout", "rules", "shuffle"), ("rules", "index", "shuffle"), ("rules", "counter", "fields:entry")],
    ),
    "TSSA": (
        [("spout", 1, 1, 2000), ("sensitize", 2, 1, 300), ("clean", 2, 1, 200), ("positive", 3, 1, 50),
         ("negative", 3, 1, 50), ("join", 1, 0.5, 50), ("score", 1, 0, 0)],
        [("spout", "sensitize", "shuffle"), ("sensitize", "clean", "shuffle"), ("clean", "positive", "shuffle"),
         ("clean", "negative", "shuffle"), ("positive", "join", "fields:id"), ("negative", "join", "fields:id"),
         ("join", "score", "shuffle")],
    ),
    "SC": (
        [("spout", 1, 1, 600), ("comm1", 1, 2, 600), ("comm2", 1, 2, 600), ("comm3", 1, 0, 0)],
        [("spout", "comm1", "shuffle"), ("comm1", "comm2", "shuffle"), ("comm2", "comm3", "shuffle")],
    ),
}  # fmt: skip
_TASKS = {"LP": {"spout": 10, "rules": 50, "index": 30, "counter": 30}, "TSSA": {"spout": 8}}
ARMS = {
    "round_robin": ("round_robin", "off"),
    "round_robin,local": ("round_robin", "node"),
    "stromax": ("stromax", "off"),
    "stromax,local": ("stromax", "node"),
    "turbostream,local": ("turbostream", "node"),
}


def drawing(name: str, *, sources: int = 5, bolts: int = 20, scale: float = 1.0) -> Drawing:
    """One of the six at the rate at which its tasks are half used, and none more than four fifths."""
    operators, streams = _SHAPES[name]
    stated = _TASKS.get(name, {}) if (sources, bolts) == (5, 20) else {}
    made = []
    for number, (operator, cost, selectivity, size) in enumerate(operators):
        tasks = 1 if operator == "merge" else stated.get(operator, bolts if number else sources)
        made.append(
            OperatorProfile(
                id=operator,
                tasks=max(1, round(tasks * scale)),
                selectivity=selectivity,
                cost=cost * _UNIT_US,
                tuple_bytes=size,
                rate_tps=1.0,
            )
        )
    found = Drawing(name, tuple(made), tuple(OperatorEdge(*stream) for stream in streams))
    fed = [vertex for vertex in found.graph.vertices if vertex.operator != operators[0][0]]
    mean = sum(vertex.cpu for vertex in fed) / len(fed) * 1e-6
    rate = min(_USE_MEAN / mean, _USE_MAX / found.busiest())
    return replace(found, operators=tuple(replace(each, rate_tps=rate) for each in made))


def simulated(
    topology: Drawing, hosts: Sequence[Node], assignment: Assignment, locality: str, tuples: int, seed: int
) -> SimulationResult:
    """Run one placement until so many roots have been emitted."""
    model = model_of(topology, hosts, assignment, TABLE_1, LINK_BYTES_PER_S)
    keyed = {stream.src: stream.grouping for stream in topology.streams if stream.grouping.startswith("fields")}
    stages = tuple(
        replace(stage, keys=Zipf(20_000) if keyed[stage.name].endswith("word") else UniformWhole(0, 99_999))
        if stage.name in keyed else stage
        for stage in model.stages
    )  # fmt: skip
    seconds = tuples / topology.operators[0].rate_tps
    policies = Policies(locality=locality)
    return Engine(replace(model, stages=stages), policies, seed).run(seconds, seconds * 0.1)


def stromax(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """Processing time of six topologies by placement, before and after a rebalance, and over 5 to 40 nodes."""
    tuples = 1500 if quick else 10_000
    nodes = parse_nodes(f"{NODES}x1x{SLOTS}")
    rows: list[ComparisonRow] = []
    for done, name in enumerate(_SHAPES):
        progress(name, done / 10)
        rows += _bootstrap(drawing(name), nodes, tuples, seeds)
    progress("rebalance", 0.7)
    rebalanced, over_time = _rebalance(nodes, tuples, seeds)
    rebalanced += _reassigned(nodes)
    progress("scaling", 0.85)
    scaled, curve = _scaling(tuples, seeds)
    columns = ("tpt_ms", "p99_ms", "inter_node_bytes", "imbalance", "throughput_per_s")
    bars = PlotPanel(
        "processing time by placement", "topology", "mean processing time, ms",
        {arm: [(float(i), _value(rows, name, arm)) for i, name in enumerate(_SHAPES)] for arm in ARMS},
        ticks=tuple(_SHAPES),
    )  # fmt: skip
    return SimulationReport(
        "stromax", stromax.__doc__ or "", rows + rebalanced + scaled, [bars, over_time, curve], columns
    )


def _value(rows: Sequence[ComparisonRow], case: str, arm: str) -> float:
    return next(row.figures["tpt_ms"] for row in rows if (row.case, row.arm) == (case, arm))


def _figures(
    topology: Drawing, hosts: Sequence[Node], assignment: Assignment, locality: str, tuples: int, seed: int
) -> dict[str, float]:
    result = simulated(topology, hosts, assignment, locality, tuples, seed)
    predicted = account(topology.graph, hosts, assignment, "even" if locality == "off" else locality)
    return {
        "tpt_ms": result.mean_ms,
        "p99_ms": result.ms(0.99),
        "inter_node_bytes": predicted.cut / topology.operators[0].rate_tps,
        "imbalance": predicted.imbalance,
        "throughput_per_s": result.completed / result.seconds,
    }


def _bootstrap(topology: Drawing, nodes: Sequence[Node], tuples: int, seeds: int) -> list[ComparisonRow]:
    found = {}
    for arm, (policy, locality) in ARMS.items():
        assignment = by_name(policy).place(topology.graph, nodes)
        found[arm] = [_figures(topology, nodes, assignment, locality, tuples, seed) for seed in range(1, seeds + 1)]
    return [ComparisonRow(topology.name, arm, medians(each), ratios_to(found, arm)) for arm, each in found.items()]


def _rebalance(nodes: Sequence[Node], tuples: int, seeds: int) -> tuple[list[ComparisonRow], PlotPanel]:
    """WC, TT and TWTT are placed as they come, each in the slots that are left; then all of them as one graph."""
    topologies = [drawing(name) for name in ("WC", "TT", "TWTT")]
    before: dict[str, Assignment] = {}
    left = list(nodes)
    for topology in topologies:
        placed = before[topology.name] = by_name("stromax").place(topology.graph, left)
        used = {node.name: len(placed.tasks_on(node.name)) for node in left}
        left = [replace(node, slots=(node.slots or 0) - used[node.name]) for node in left]
    union = TaskGraph.union(topology.graph for topology in topologies)
    whole = by_name("stromax", neighbour_weight="traffic").place(union, nodes, Snapshot())
    rows, lines = [], {}
    for topology in topologies:
        after = _only(whole, f"{topology.name}/")
        found = {
            arm: [_figures(topology, nodes, placed, "node", tuples, seed) for seed in range(1, seeds + 1)]
            for arm, placed in (("bootstrap", before[topology.name]), ("global", after))
        }
        rows += [
            ComparisonRow(f"{topology.name},rebalance", arm, medians(each), ratios_to(found, arm))
            for arm, each in found.items()
        ]
        lines[topology.name] = [
            (float(second), medians(found[arm])["tpt_ms"])
            for arm, span in (("bootstrap", range(0, 300, 30)), ("global", range(300, 601, 30)))
            for second in span
        ]
    title = "processing time across a rebalance at 300 s (the change itself is not simulated)"
    return rows, PlotPanel(title, "time, s", "mean processing time, ms", lines)


def _reassigned(nodes: Sequence[Node]) -> list[ComparisonRow]:
    """All six at once: what two streams of TSSA send between nodes before and after, by the accounting alone."""
    topologies = [drawing(name, sources=3, bolts=10) for name in _SHAPES]
    places = [by_name("stromax").place(topology.graph, nodes) for topology in topologies]
    union = TaskGraph.union(topology.graph for topology in topologies)
    whole = by_name("stromax", neighbour_weight="traffic").place(union, nodes, Snapshot())
    tssa = next(topology for topology in topologies if topology.name == "TSSA")
    before = places[topologies.index(tssa)]
    rows = []
    for stream in (("spout", "sensitize"), ("negative", "join")):
        found = {
            arm: [{"inter_node_bytes": account(tssa.graph, nodes, placed).streams[stream].inter_node_bytes}]
            for arm, placed in (("bootstrap", before), ("rebalance", _only(whole, "TSSA/")))
        }
        case = f"six,TSSA {stream[0]}->{stream[1]}"
        rows += [ComparisonRow(case, arm, medians(each), ratios_to(found, arm)) for arm, each in found.items()]
    return rows


def _only(assignment: Assignment, prefix: str) -> Assignment:
    tasks = [task for task in assignment.node_of if task.startswith(prefix)]
    return Assignment(
        {task.removeprefix(prefix): assignment.node_of[task] for task in tasks},
        {task.removeprefix(prefix): assignment.worker_of[task] for task in tasks},
    )


def _scaling(tuples: int, seeds: int) -> tuple[list[ComparisonRow], PlotPanel]:
    """TSSA with tasks and input in proportion to the nodes, to see whether each still carries as much."""
    rows, points = [], []
    base = 0.0
    for count in (5, 10, 20, 40):
        nodes = parse_nodes(f"{count}x1x{SLOTS}")
        topology = drawing("TSSA", scale=count / NODES)
        assignment = by_name("stromax").place(topology.graph, nodes)
        runs = [
            _figures(topology, nodes, assignment, "node", math.ceil(tuples * count / NODES) + 200, seed)
            for seed in range(1, seeds + 1)
        ]
        figures = medians(runs)
        per_node = figures["throughput_per_s"] / count
        base = base or per_node
        rows.append(ComparisonRow(f"TSSA,nodes={count}", "stromax,local", figures | {"scaling": per_node / base}))
        points.append((float(count), figures["throughput_per_s"]))
    ideal = [(count, points[0][1] * count / points[0][0]) for count, _ in points]
    return rows, PlotPanel("TSSA over nodes", "nodes", "tuples per s", {"stromax": points, "ideal": ideal})
