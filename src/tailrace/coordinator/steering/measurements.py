"""What has been measured of a running query, as placement wants it: cost and rate of tasks, traffic of edges by link.

The coordinator's brain hands every report over and closes a period with every progress; ``snapshot`` is what a policy's
``place(graph, nodes, snapshot)`` takes, ``rows`` what ``lastProgress`` shows of measured and predicted traffic. Reports
are only kept by reference and taken apart when somebody asks, since there may be a thousand per second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.steering.graphs import assignment_of, nodes_of, task_graph, task_id
from tailrace.placement.accounting import account
from tailrace.placement.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tailrace.placement.accounting import Traffic
    from tailrace.program.program import Program
    from tailrace.reports import LinkReport, TaskReport, WorkerReport

_US_PER_NS = 1e-3
#: Periods after which the beginning of the measured span moves on; a span covers one to two times as many.
SPAN_PERIODS = 5
#: Nodes count as unequal from this ratio of what a tuple costs on them.
SPEED_GRAIN = 1.15
#: Pairs of tasks beyond which traffic is no longer predicted with every progress: it takes seconds then.
PREDICTED_PAIRS_MAX = 100_000
_KINDS = ("inProcess", "intraNode", "interNode")


@dataclass(frozen=True)
class _Mark:
    """The reports as they stood at some time."""

    at_s: float = 0.0
    reports: Mapping[int, WorkerReport] = field(default_factory=dict)


class Measured:
    """The measurements of one query."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._now: dict[int, WorkerReport] = {}
        self._past_links: dict[tuple[int, int], list[int]] = {}
        self._before: dict[tuple[int, int], list[int]] = {}
        self._clock_s = 0.0
        self._periods = 0
        self._marks = (_Mark(), _Mark())
        self._bytes_per_tuple: dict[int, float] = {}
        self._shares: tuple[Any, dict[tuple[int, int], Traffic]] = ((), {})

    def take(self, slot: int, report: WorkerReport) -> None:
        """Take a worker's report in."""
        self._now[slot] = report

    def forget(self, slot: int) -> None:
        """A worker was lost: keep what it counted of edges; its successor begins again."""
        report = self._now.pop(slot, None)
        for row in () if report is None else report.links:
            _add(self._past_links, row)

    # -- traffic -------------------------------------------------------------------------------------------------

    def close_period(
        self, seconds: float, placement: Sequence[Sequence[int]], hosts: Mapping[int, str]
    ) -> list[dict[str, Any]]:
        """End a period of so many seconds; gives per edge what was sent over each kind of link, and what was to be."""
        self._clock_s += seconds
        self._periods += 1
        if self._periods % SPAN_PERIODS == 0:
            self._marks = (self._marks[1], _Mark(self._clock_s, dict(self._now)))
        links = {key: list(total) for key, total in self._past_links.items()}
        for report in self._now.values():
            for row in report.links:
                _add(links, row)
        shares = self._shares_of(placement, hosts)
        shown = [self._row(edge.id, links, seconds, shares) for edge in self._program.plan.edges]
        self._before = links
        return shown

    def _row(
        self,
        edge: int,
        links: Mapping[tuple[int, int], Sequence[int]],
        seconds: float,
        shares: Mapping[tuple[int, int], Traffic],
    ) -> dict[str, Any]:
        totals = [links.get((edge, kind), (0, 0)) for kind in range(len(_KINDS))]
        encoded = sum(total[0] for total in totals[1:])
        if encoded:
            self._bytes_per_tuple[edge] = sum(total[1] for total in totals[1:]) / encoded
        before = [self._before.get((edge, kind), (0, 0)) for kind in range(len(_KINDS))]
        ends = self._program.plan.edges[edge]
        row: dict[str, Any] = {
            "edge": f"{ends.src} -> {self._program.plan.stages[ends.dst_stage].head.name}",
            "tuples": dict(zip(_KINDS, (total[0] for total in totals), strict=True)),
            "bytes": dict(zip(_KINDS[1:], (total[1] for total in totals[1:]), strict=True)),
            "perSecond": {
                name: round((total[0] - old[0]) / seconds, 1)
                for name, total, old in zip(_KINDS, totals, before, strict=True)
            },
            "bytesPerSecond": {
                name: round((total[1] - old[1]) / seconds, 1)
                for name, total, old in zip(_KINDS[1:], totals[1:], before[1:], strict=True)
            },
        }
        share = shares.get((ends.src_stage, ends.dst_stage))
        if share is not None:
            row["predicted"] = self._predicted(edge, share, sum(total[0] for total in totals))
        return row

    def _predicted(self, edge: int, share: Traffic, tuples: int) -> dict[str, dict[str, float]]:
        """What all tuples of the edge should have taken, by the routing rule and this placement."""
        kinds = (share.in_process_tuples, share.intra_node_tuples, share.inter_node_tuples)
        parts = [tuples * kind / max(1e-12, sum(kinds)) for kind in kinds]
        size = self._bytes_per_tuple.get(edge, 0.0)
        return {
            "tuples": {name: round(part, 1) for name, part in zip(_KINDS, parts, strict=True)},
            "bytes": {name: round(part * size, 1) for name, part in zip(_KINDS[1:], parts[1:], strict=True)},
        }

    def _shares_of(
        self, placement: Sequence[Sequence[int]], hosts: Mapping[int, str]
    ) -> dict[tuple[int, int], Traffic]:
        """Per pair of stages the traffic that the structure and this placement make; the last answer is kept."""
        key = [list(row) for row in placement], dict(hosts)
        if self._shares[0] != key:
            plan, policy = self._program.plan, self._program.policy
            pairs = sum(plan.stages[edge.src_stage].tasks * plan.stages[edge.dst_stage].tasks for edge in plan.edges)
            found: dict[tuple[int, int], Traffic] = {}
            if pairs <= PREDICTED_PAIRS_MAX and placement:
                shuffle = "even" if policy.locality == "off" else policy.locality
                skew_max = self._program.settings.local_skew_max
                counted = account(
                    task_graph(self._program), nodes_of(hosts), assignment_of(placement, hosts), shuffle, skew_max
                )
                found = {(int(src), int(dst)): each for (src, dst), each in counted.streams.items()}
            self._shares = key, found
        return self._shares[1]

    # -- for placement -------------------------------------------------------------------------------------------

    def snapshot(
        self, placement: Sequence[Sequence[int]], hosts: Mapping[int, str], held: Iterable[str] = ()
    ) -> Snapshot | None:
        """Costs, rates and traffic over the last periods; None before anything was measured.

        What a tuple costs is processor time, but for operators that block, which hold their task for as long as they
        take. Tuples handed over inside a worker have no bytes; they count with what others of their edge have.
        """
        begun, reports = self._marks[0], list(self._now.values())  # another query's thread may ask
        seconds = self._clock_s - begun.at_s
        if seconds <= 0 or not reports:
            return None
        tasks = _grown(_task_totals(reports), _task_totals(begun.reports.values()))
        edges = _grown(_edge_totals(reports), _edge_totals(begun.reports.values()))
        known: dict[tuple[str, str], tuple[float, float]] = {}
        rest: dict[tuple[str, str], tuple[float, float]] = {}
        for (edge, src, dst), (tuples, _) in edges.items():
            ends = self._program.plan.edges[edge]
            size = self._bytes_per_tuple.get(edge, 1.0)
            rated = tuples / seconds, tuples * size / seconds
            if src < 0:
                _rate(rest, (str(ends.src_stage), str(ends.dst_stage)), rated)
            else:
                _rate(known, (task_id(ends.src_stage, src), task_id(ends.dst_stage, dst)), rated)
        costs = {key: spent * _US_PER_NS / tuples for key, (tuples, spent) in tasks.items() if tuples}
        return Snapshot(
            cpu_us_per_tuple={task_id(*key): cost for key, cost in costs.items()},
            tuples_in_per_s={task_id(*key): tuples / seconds for key, (tuples, _) in tasks.items()},
            edges=known,
            remainder=rest,
            node_speed=node_speeds(costs, placement, hosts),
            assignment=assignment_of(placement, hosts),
            held=frozenset(held),
        )


def node_speeds(
    costs_us: Mapping[tuple[int, int], float], placement: Sequence[Sequence[int]], hosts: Mapping[int, str]
) -> dict[str, float]:
    """How fast each node is, by what tuples of the same stage cost on it and elsewhere; 1 is usual.

    Per stage a node's cost is held against the median over nodes, and the node's speed is the median over its stages.
    """
    ratios: dict[str, list[float]] = {}
    for stage, row in enumerate(placement):
        by_node: dict[str, list[float]] = {}
        for task, slot in enumerate(row):
            if (cost := costs_us.get((stage, task))) is not None and cost > 0:
                by_node.setdefault(hosts[slot], []).append(cost)
        if len(by_node) > 1:
            means = {node: sum(costs) / len(costs) for node, costs in by_node.items()}
            usual = median(means.values())
            for node, mean in means.items():
                ratios.setdefault(node, []).append(usual / mean)
    found = {node: median(each) for node, each in ratios.items()}
    return {node: speed for node, speed in found.items() if not 1 / SPEED_GRAIN < speed < SPEED_GRAIN}


def _task_totals(reports: Iterable[WorkerReport]) -> dict[tuple[int, int], tuple[float, float]]:
    """Tuples in and nanoseconds spent, per task; of one that has just moved, what the later of its workers says."""
    latest: dict[tuple[int, int], TaskReport] = {}
    for report in reports:
        for row in report.tasks:
            other = latest.get(row.key)
            if other is None or row.advance > other.advance:
                latest[row.key] = row
    return {key: (row.tuples_in, row.cpu_ns if row.mode == "inline" else row.busy_ns) for key, row in latest.items()}


def _edge_totals(reports: Iterable[WorkerReport]) -> dict[tuple[int, int, int], tuple[float, float]]:
    """Tuples and bytes, per edge and pair of tasks."""
    found: dict[tuple[int, int, int], tuple[float, float]] = {}
    for report in reports:
        for row in report.edges:
            key = row.edge, row.sender, row.receiver
            old = found.get(key, (0.0, 0.0))
            found[key] = old[0] + row.tuples, old[1] + row.bytes
    return found


def _grown(now: Mapping[Any, tuple[float, float]], before: Mapping[Any, tuple[float, float]]) -> dict[Any, Any]:
    """What was added since; counters that are lower than before have begun again."""
    found = {}
    for key, (first, second) in now.items():
        old = before.get(key, (0.0, 0.0))
        again = first < old[0]
        found[key] = (first, second) if again else (first - old[0], second - old[1])
    return found


def _add(into: dict[tuple[int, int], list[int]], row: LinkReport) -> None:
    total = into.setdefault((row.edge, row.kind), [0, 0])
    total[0] += row.tuples
    total[1] += row.bytes


def _rate(into: dict[tuple[str, str], tuple[float, float]], key: tuple[str, str], rated: tuple[float, float]) -> None:
    old = into.get(key, (0.0, 0.0))
    into[key] = old[0] + rated[0], old[1] + rated[1]
