"""TurboStream's nodes x workers: SOL and ThroughputTest with sockets, with the ring, and with its placement too.

Hop costs are the paper's Table I (Netty between workers, of one node or of two); the ring's is Netty's less the 99.30 %
the paper claims at high rates. So this asks whether the paper's figures follow from each other; how quick our own ring
is, ``tailrace bench ring`` measures.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tailrace.placement.accounting import account
from tailrace.placement.model import OperatorEdge, parse_nodes
from tailrace.placement.registry import by_name
from tailrace.placement.traffic import OperatorProfile

from ..comparison import ComparisonRow, PlotPanel, SimulationReport
from ..engine import Engine
from ..model import Policies
from ..summary import medians, ratios_to
from .online import keyed, online_rows
from .placed import TABLE_1, Drawing, model_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RING = replace(TABLE_1, near_us=TABLE_1.near_us * (1 - 0.9930))
#: Nodes and workers per node.
DEPLOYMENTS = {
    "8N8W": "8x1", "4N8W": "4x2", "2N8W": "2x4", "1N4W": "1x4", "1N2W": "1x2", "2N2W": "2x1", "4N4W": "4x1",
    "2N4W": "2x2", "1N1W": "1x1",
}  # fmt: skip
ARMS = {
    "jstorm": ("round_robin", "off", TABLE_1),
    "ring": ("round_robin", "off", RING),
    "ring,turbostream": ("turbostream", "off", RING),
    "ring,turbostream,local": ("turbostream", "node", RING),
}
_SERVICE_US = 20.0


def sol(rate: float = 5000.0) -> Drawing:
    """One source and five bolts that pass tuples on; 5 tasks each."""
    names = ("spout", *(f"bolt{number}" for number in range(1, 6)))
    operators = tuple(OperatorProfile(id=name, tasks=5, cost=_SERVICE_US, rate_tps=rate) for name in names)
    return Drawing("SOL", operators, tuple(OperatorEdge(a, b) for a, b in pairwise(names)))


def throughput_test(rate: float = 10_000.0, tasks: int = 8) -> Drawing:
    """Source and sink, 8 tasks each, as storm-benchmark's example call has them."""
    operators = tuple(
        OperatorProfile(id=name, tasks=tasks, cost=_SERVICE_US, rate_tps=rate) for name in ("spout", "bolt")
    )
    return Drawing("ThroughputTest", operators, (OperatorEdge("spout", "bolt"),))


def turbostream(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """Mean latency by deployment: sockets, the ring, the ring with placement, and with a node-local shuffle besides."""
    tuples = 2000 if quick else 10_000
    plan = [(sol(), name) for name in ("8N8W", "4N8W", "2N8W", "1N4W", "1N2W", "2N2W", "1N1W")]
    plan += [(throughput_test(), name) for name in ("4N4W", "2N2W", "2N4W", "1N2W", "1N4W", "4N8W", "2N8W")]
    rows: list[ComparisonRow] = []
    for done, (drawn, deployment) in enumerate(plan):
        progress(f"{drawn.name} {deployment}", done / len(plan))
        hosts = parse_nodes(DEPLOYMENTS[deployment])
        found = {}
        for arm, (policy, locality, hops) in ARMS.items():
            assignment = by_name(policy).place(drawn.graph, hosts)
            model = model_of(drawn, hosts, assignment, hops)
            seconds = tuples / drawn.operators[0].rate_tps
            share = account(drawn.graph, hosts, assignment).total.intra_node_share
            found[arm] = [
                {"mean_ms": Engine(model, Policies(locality=locality), seed).run(seconds).mean_ms, "intra_share": share}
                for seed in range(1, seeds + 1)
            ]
        case = f"{drawn.name},{deployment}"
        rows += [ComparisonRow(case, arm, medians(each), ratios_to(found, arm)) for arm, each in found.items()]
    panels = [_bars(rows, name) for name in ("SOL", "ThroughputTest")]
    for drawn in (throughput_test(), keyed(throughput_test(), _SERVICE_US)):
        for deployment in ("1N2W", "2N2W", "4N4W"):
            rows += online_rows(drawn, deployment, DEPLOYMENTS[deployment], RING, tuples, seeds)
    return SimulationReport("turbostream", turbostream.__doc__ or "", rows, panels, ("mean_ms", "intra_share"))


def _bars(rows: Sequence[ComparisonRow], name: str) -> PlotPanel:
    cases = list(dict.fromkeys(row.case for row in rows if row.case.startswith(f"{name},")))
    lines = {
        arm: [
            (float(cases.index(row.case)), row.figures["mean_ms"])
            for row in rows
            if row.case in cases and row.arm == arm
        ]
        for arm in ARMS
    }
    ticks = tuple(case.rpartition(",")[2] for case in cases)
    return PlotPanel(f"{name} by nodes and workers", "deployment", "mean latency, ms", lines, ticks=ticks)
