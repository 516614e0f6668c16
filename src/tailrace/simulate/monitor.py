"""The decision loop of a simulated run: measure every task, tell the balancers, the load-aware rules and auto.

Stands where the coordinator stands in the runtime; what decides is the runtime's own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tailrace.coordinator.steering.auto import AutoPolicy, TaskLoad
from tailrace.routing.balance import TaskView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .agenda import Agenda
    from .model import Policies
    from .routes import Edge
    from .tasks import TaskServer

_NS_PER_S = 1_000_000_000
_NS_PER_US = 1000
_SNAPSHOT_S = 1.0


class Meter:
    """Differences of a task's totals since the last look."""

    def __init__(self, tasks: Sequence[TaskServer]) -> None:
        self._tasks = tasks
        self._last = [(0, 0, 0)] * len(tasks)

    def read(self) -> list[tuple[int, int, int]]:
        """Tuples done, their latency and the time busy, of each task since the last time."""
        now = [(task.done, task.latency_ns, task.busy_ns) for task in self._tasks]
        found = [(new[0] - old[0], new[1] - old[1], new[2] - old[2]) for new, old in zip(now, self._last, strict=True)]
        self._last = now
        return found


class Monitor:
    """Runs while the sources do."""

    def __init__(
        self,
        agenda: Agenda,
        edges: Sequence[Edge],
        tasks: Sequence[TaskServer],
        switch: Callable[[dict[str, str]], None],
    ) -> None:
        self._agenda = agenda
        self._edges = edges
        self._tasks = tasks
        self._switch = switch
        self._end_ns = 0
        self._policies: Policies
        self._epoch = 0
        self._auto = AutoPolicy()
        self._auto_meter = Meter(tasks)
        self.shares: list[tuple[float, tuple[float, ...]]] = []
        self.switches: list[tuple[float, str]] = []

    def start(self, policies: Policies, end_ns: int) -> None:
        """Begin the loops."""
        self._end_ns = end_ns
        self.apply(policies)
        if policies.auto:
            self._later(_SNAPSHOT_S, self._choose)

    def apply(self, policies: Policies) -> None:
        """Begin the loops that new policies need."""
        self._policies = policies
        self._epoch += 1
        for edge in self._edges:
            if edge.balancer is not None:
                self._later(edge.balancer.period_s, partial(self._balance, self._epoch, edge, Meter(edge.targets)))
            elif policies.routing == "load_reports" and edge.stage.grouping == "shuffle":
                self._later(policies.report_s, partial(self._report, self._epoch, edge))
            if edge.credited:
                self._credit(self._epoch, edge, None)

    def _later(self, seconds: float, action: Callable[[None], None]) -> None:
        due_ns = self._agenda.now_ns + round(seconds / self._policies.haste * _NS_PER_S)
        if due_ns <= self._end_ns:
            self._agenda.at(due_ns, action)

    def _balance(self, epoch: int, edge: Edge, meter: Meter, _: None) -> None:
        if epoch != self._epoch or edge.balancer is None:
            return
        period_s = edge.balancer.period_s / self._policies.haste
        views = [
            TaskView(latency_ns / max(1, done) / _NS_PER_US, done / period_s) for done, latency_ns, _ in meter.read()
        ]
        edge.adjust(views)
        if edge is self._edges[0]:
            self.shares.append((self._agenda.now_ns / _NS_PER_S, edge.balance.weights))
        self._later(edge.balancer.period_s, partial(self._balance, epoch, edge, meter))

    def _report(self, epoch: int, edge: Edge, _: None) -> None:
        if epoch != self._epoch:
            return
        edge.report([float(task.group.waiting(task)) for task in edge.targets])
        self._later(self._policies.report_s, partial(self._report, epoch, edge))

    def _credit(self, epoch: int, edge: Edge, _: None) -> None:
        """Give credits every few ms; a delay of the network, so haste does not shorten it."""
        if epoch != self._epoch:
            return
        edge.give_credits()
        due_ns = self._agenda.now_ns + round(self._policies.credit_s * _NS_PER_S)
        if due_ns <= self._end_ns:
            self._agenda.at(due_ns, partial(self._credit, epoch, edge))

    def _choose(self, _: None) -> None:
        interval_ns = _SNAPSHOT_S / self._policies.haste * _NS_PER_S
        loads = [
            TaskLoad(task.stage.name, task.node, busy_ns / done / _NS_PER_US if done else None, busy_ns / interval_ns)
            for task, (done, _latency, busy_ns) in zip(self._tasks, self._auto_meter.read(), strict=True)
        ]
        # Simulated tasks wait rather than compute: how busy the busiest node's tasks are stands for its CPU.
        per_node: dict[int, list[float]] = {}
        for load in loads:
            per_node.setdefault(load.worker, []).append(load.busy)
        cpu = max(sum(each) / len(each) for each in per_node.values())
        shareable = {edge.stage.name: edge.stage.grouping in {"shuffle", "random"} for edge in self._edges}
        before = self._auto.choice.technique
        choice = self._auto.observe(loads, cpu, shareable)
        if choice.technique != before:
            self.switches.append((self._agenda.now_ns / _NS_PER_S, f"{choice.technique}: {choice.reason}"))
            self._switch(choice.policies)
        self._later(_SNAPSHOT_S, self._choose)
