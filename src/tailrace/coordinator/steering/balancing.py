"""The coordinator's side of balanced routing: per shuffled edge, measurements in and weights for its senders out.

Called by the coordinator's brain with every report and every tick; what it decides goes to the workers that send on the
edge, into ``lastProgress`` and into ``explain()``. Pure: the clock's reading is passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.metrics.histogram import Histogram
from tailrace.routing import is_free
from tailrace.routing.balance import Balance, TaskView
from tailrace.routing.latency import LatencyBalancer
from tailrace.routing.shortest_delay import RateEstimator

if TYPE_CHECKING:
    from tailrace.program.program import Program
    from tailrace.reports import WorkerReport
    from tailrace.routing.balance import Balancer
    from tailrace.topology.plan import StageEdge

_NS_PER_S = 1_000_000_000
_US_PER_NS = 1e-3
#: Weights closer than this to an equal share are called equal.
_EQUAL = 0.02


def _balancer(routing: str, haste: float) -> Balancer | None:
    if routing == "latency":
        return LatencyBalancer(period_s=LatencyBalancer.period_s / haste)
    if routing == "shortest_delay":
        return RateEstimator(period_s=RateEstimator.period_s / haste)
    return None


class Balancing:
    """The weights of all edges of one query that have any."""

    def __init__(self, program: Program) -> None:
        policy, plan = program.policy, program.plan
        self._plan = plan
        self._routing = policy.routing
        # Where the rule may be switched on, its weights are known by then.
        wanted = "shortest_delay" if "routing" in program.switched else policy.routing
        self._balancer = _balancer(wanted, program.settings.haste)
        self._edges = [
            edge
            for edge in plan.edges
            if self._balancer is not None
            and is_free(edge, plan.stages[edge.dst_stage], local=(), tracked=policy.tracked)
        ]
        self.balances = {edge.id: Balance.even(plan.stages[edge.dst_stage].tasks) for edge in self._edges}
        self._views: dict[int, tuple[TaskView, ...]] = {}
        self._measured: dict[tuple[int, int], Histogram] = {}
        self._reported: set[int] = set()
        self._begun_ns: int | None = None

    @property
    def _on(self) -> bool:
        return self._routing in {"latency", "shortest_delay"}

    def switch(self, routing: str) -> None:
        """Senders go by another rule from now on."""
        self._routing = routing

    @property
    def told(self) -> dict[int, Balance]:
        """The weights that senders go by."""
        return self.balances if self._on else {}

    def add(self, slot: int, report: WorkerReport) -> None:
        """Add the latencies of a worker's report."""
        if not self._edges:
            return
        self._reported.add(slot)
        for row in report.tasks:
            if (latency := row.latency) is not None:
                found = Histogram(latency.counts, latency.most, latency.total)
                self._measured.setdefault(row.key, Histogram()).merge(found)

    def adjust(self, now_ns: int, expected: set[int]) -> list[StageEdge]:
        """End a period, if one is over and all expected workers have reported in it; gives the edges to be told of."""
        if self._balancer is None or not self._edges:
            return []
        if self._begun_ns is None:
            self._begin(now_ns)
            return []
        seconds = (now_ns - self._begun_ns) / _NS_PER_S
        patience = 1.0 if self._reported >= expected else 2.0
        if seconds < patience * self._balancer.period_s or not self._reported:
            return []
        changed = []
        for edge in self._edges:
            views = self._views_of(edge, seconds)
            before = self.balances[edge.id]
            self.balances[edge.id] = found = self._balancer.adjust(before, views)
            self._views[edge.id] = views
            if found.weights != before.weights:
                changed.append(edge)
        self._begin(now_ns)
        return changed if self._on else []

    def _begin(self, now_ns: int) -> None:
        self._begun_ns = now_ns
        self._measured.clear()
        self._reported.clear()

    def _views_of(self, edge: StageEdge, seconds: float) -> tuple[TaskView, ...]:
        empty = Histogram()
        found = [
            self._measured.get((edge.dst_stage, task), empty) for task in range(self._plan.stages[edge.dst_stage].tasks)
        ]
        return tuple(TaskView(each.mean * _US_PER_NS, len(each) / seconds) for each in found)

    def rows(self) -> list[dict[str, Any]]:
        """What ``lastProgress`` shows: per edge the weights, what they came from and why."""
        return [
            {
                "edge": self._name(edge),
                "routing": self._routing,
                "weights": [round(weight, 4) for weight in self.balances[edge.id].weights],
                "latency_us": [round(view.latency_us, 1) for view in self._views.get(edge.id, ())],
                "perSecond": [round(view.tuples_per_s, 1) for view in self._views.get(edge.id, ())],
                "why": self._why(edge),
            }
            for edge in (self._edges if self._on else ())
        ]

    def _name(self, edge: StageEdge) -> str:
        return f"{edge.src} -> {self._plan.stages[edge.dst_stage].head.name}"

    def _why(self, edge: StageEdge) -> str:
        balance, views = self.balances[edge.id], self._views.get(edge.id)
        if not views:
            return "nothing measured yet"
        even = 1.0 / len(views)
        least = min(range(len(views)), key=lambda task: balance.weights[task])
        if abs(balance.weights[least] - even) < _EQUAL * even:
            return "tasks are taken for equal"
        known = [view.latency_us for view in views if view.tuples_per_s]
        usual_us = sorted(known)[len(known) // 2] if known else 0.0
        return (
            f"task {least} has the least, {balance.weights[least]:.3f}: {views[least].latency_us:,.0f} us per tuple at "
            f"{views[least].tuples_per_s:,.0f}/s, where {usual_us:,.0f} us are usual"
        )
