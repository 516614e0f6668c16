"""TurboStream's on-line consolidation (figure 9e): place by the drawing, run, place again by what was measured.

The scenario ``turbostream`` calls it. The paper's topology is shuffled, where every pair of tasks exchanges as much as
every other, so a keyed one with words as uneven as words are is run beside it. The move itself is not simulated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.placement.accounting import account
from tailrace.placement.model import OperatorEdge, parse_nodes
from tailrace.placement.registry import by_name
from tailrace.placement.snapshot import Snapshot
from tailrace.placement.traffic import OperatorProfile, task_id

from ..comparison import ComparisonRow
from ..distributions import Zipf
from ..engine import Engine
from ..model import Policies
from ..summary import medians, ratios_to
from .placed import model_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.placement.model import Assignment, Node

    from ..model import Model
    from .placed import Drawing, Hops

OFFLINE, ONLINE = "off-line", "on-line"


def keyed(drawn: Drawing, cost_us: float) -> Drawing:
    """The same with a third operator, which gets its tuples by word."""
    before = drawn.operators[-1]
    last = OperatorProfile(id="count", tasks=before.tasks, cost=cost_us, rate_tps=before.rate_tps)
    streams = (*drawn.streams, OperatorEdge(before.id, last.id, "fields:word"))
    return replace(drawn, name=f"{drawn.name} by word", operators=(*drawn.operators, last), streams=streams)


def online_rows(
    drawn: Drawing, deployment: str, nodes: str, hops: Hops, tuples: int, seeds: int
) -> list[ComparisonRow]:
    """Mean latency under both placements."""
    hosts, policy = parse_nodes(nodes), by_name("turbostream")
    before = policy.place(drawn.graph, hosts)
    after = policy.place(drawn.graph, hosts, _measured(drawn, hosts, before, hops, tuples))
    seconds = tuples / drawn.operators[0].rate_tps
    found = {
        arm: [
            {
                "mean_ms": Engine(_model(drawn, hosts, placed, hops), Policies(), seed).run(seconds).mean_ms,
                "intra_share": account(drawn.graph, hosts, placed).total.intra_node_share,
            }
            for seed in range(1, seeds + 1)
        ]
        for arm, placed in ((OFFLINE, before), (ONLINE, after))
    }
    case = f"{drawn.name},{deployment},online"
    return [ComparisonRow(case, arm, medians(each), ratios_to(found, arm)) for arm, each in found.items()]


def _model(drawn: Drawing, hosts: Sequence[Node], placed: Assignment, hops: Hops) -> Model:
    model = model_of(drawn, hosts, placed, hops)
    by_word = {stream.src for stream in drawn.streams if stream.grouping.startswith("fields")}
    stages = tuple(replace(each, keys=Zipf(20_000)) if each.name in by_word else each for each in model.stages)
    return replace(model, stages=stages)


def _measured(drawn: Drawing, hosts: Sequence[Node], placed: Assignment, hops: Hops, tuples: int) -> Snapshot:
    """What a run shows a monitor: what each task takes in, costs, and gets from each task before it."""
    engine = Engine(_model(drawn, hosts, placed, hops), Policies(), "measured")
    seconds = tuples / drawn.operators[0].rate_tps
    engine.run(seconds)
    source, *fed = drawn.operators
    per_s = {source.id: [source.rate_tps / source.tasks] * source.tasks}
    per_s |= {operator.id: [done / seconds for done in engine.done(operator.id)] for operator in fed}
    costs = {operator.id: operator.cost for operator in drawn.operators}
    sent_bytes = {operator.id: operator.tuple_bytes for operator in drawn.operators}
    edges = {}
    for stream in drawn.streams:
        whole = sum(per_s[stream.src])
        for i, sent in enumerate(per_s[stream.src]):
            for j, got in enumerate(per_s[stream.dst]):
                rate = got * sent / whole
                edges[task_id(stream.src, i), task_id(stream.dst, j)] = rate, rate * sent_bytes[stream.src]
    return Snapshot(
        cpu_us_per_tuple={task_id(name, i): costs[name] for name, rates in per_s.items() for i in range(len(rates))},
        tuples_in_per_s={task_id(name, i): rate for name, rates in per_s.items() for i, rate in enumerate(rates)},
        edges=edges,
        assignment=placed,
    )
