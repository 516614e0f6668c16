"""Runs a model under policies: makes tasks, links and sources, moves tuples between them, gives the result.

Every random draw comes from a stream of its own, named by the seed and what it is for, so that two arms of a comparison
see the same arrivals and a run is the same every time.
"""

from __future__ import annotations

import contextlib
import gc
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tailrace.batch import Batch, mix, numbers
from tailrace.config import Settings
from tailrace.routing.near import NearEdge, near_rows
from tailrace.sending.registry import gate_by_name

from .agenda import Agenda
from .links import SimulatedUplink
from .monitor import Monitor
from .pace import NodeSpeed
from .results import SimulationResult, StageResult, percentile
from .routes import Edge
from .sources import SourceTask
from .tasks import Item, TaskGroup, TaskServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.routing.near import Row

    from .model import Model, Policies, StageModel
    from .tasks import Attempt

_NS_PER_S = 1_000_000_000
_NS_PER_US = 1000
_NS_PER_MS = 1e6
#: What is open when the sources end may take this many times as long again.
_DRAIN = 20
_TIMELINE_POINTS = 2000
#: What rules get that look at values alone: one for all tuples, since making one up takes time.
_NO_HEADS = Batch([], None, numbers())


class Engine:
    """One run."""

    def __init__(self, model: Model, policies: Policies, seed: int | str) -> None:
        self.model = model
        self.policies = policies
        self.agenda = Agenda()
        self._seed = seed
        self._tasks: dict[str, list[TaskServer]] = {}
        self._groups: list[TaskGroup] = []
        self._edges: dict[str, list[Edge]] = {"source": []}
        self._uplinks: dict[int, SimulatedUplink] = {}
        self._outboxes: dict[tuple[int, int, int], int] = {}
        self._source_nodes = model.place(model.source.nodes, model.source.tasks)
        self._make_stages()
        self._make_edges()
        self.sources = [
            SourceTask(model.source, index, self.agenda, self._random(f"source-{index}"), self._send_root)
            for index in range(model.source.tasks)
        ]
        self._ways = Ways(model)
        for number, node in enumerate(model.nodes):
            if node.link_bytes_per_s is not None:
                gate = gate_by_name(policies.sending, policies.gate)
                self._uplinks[number] = SimulatedUplink(
                    self.agenda, gate, node.link_bytes_per_s, policies.gate.tau_ns, self._deliverer(number)
                )
        self._all_edges = [edge for edges in self._edges.values() for edge in edges]
        self._monitor = Monitor(
            self.agenda, self._all_edges, [task for tasks in self._tasks.values() for task in tasks], self._switch
        )
        self._draws = self._random("outputs")

    def _random(self, name: str) -> Random:
        return Random(f"{self._seed}/{name}")  # noqa: S311 - a simulation

    def _make_stages(self) -> None:
        paces = [NodeSpeed(node, f"{self._seed}/node-{number}") for number, node in enumerate(self.model.nodes)]
        for stage in self.model.stages:
            places = self.model.place(stage.nodes, stage.tasks)
            tasks = [TaskServer(stage, index, node) for index, node in enumerate(places)]
            self._tasks[stage.name] = tasks
            self._edges[stage.name] = []
            mates_on: dict[int, list[TaskServer]] = {}
            for task in tasks:
                mates_on.setdefault(task.node, []).append(task)
            for node, mates in sorted(mates_on.items()):
                random = self._random(f"{stage.name}-{node}")
                self._groups.append(TaskGroup(mates, paces[node], random, self.agenda, self._done))

    def _make_edges(self) -> None:
        number = 0
        for stage in self.model.stages:
            for upstream in stage.inputs:
                senders = self.model.source.tasks if upstream == "source" else len(self._tasks[upstream])
                random = self._random(f"edge-{number}")
                self._edges[upstream].append(Edge(number, senders, stage, self._tasks[stage.name], random))
                number += 1

    # -- policies --------------------------------------------------------------------------------------------------

    def _apply(self, policies: Policies) -> None:
        self.policies = policies
        near = self._near(policies)
        for edge in self._all_edges:
            edge.apply(policies, near.get(edge.number))
        for group in self._groups:
            group.share(policies.inbox == "shared" and group.tasks[0].stage.grouping in {"shuffle", "random"})
        for source in self.sources:
            source.apply(policies)

    def _near(self, policies: Policies) -> dict[int, list[Row]]:
        """The shares of edges that keep near, as workers of the runtime take them."""
        if policies.locality == "off":
            return {}
        hosts = {name: number for number, name in enumerate(dict.fromkeys(self.model.hosts))}
        numbers_of = {name: number for number, name in enumerate(["source", *self._tasks])}
        nodes = [self._source_nodes, *([task.node for task in tasks] for tasks in self._tasks.values())]
        places = [[(hosts[self.model.hosts[node]], node) for node in each] for each in nodes]
        adaptive = policies.replay == "adaptive"
        edges = [
            NearEdge(edge.number, numbers_of[upstream], numbers_of[edge.stage.name], edge.rule(adaptive=adaptive))
            for upstream, edges in self._edges.items()
            for edge in edges
        ]
        return near_rows(places, edges, policies.locality, Settings.local_skew_max)

    def _switch(self, names: dict[str, str]) -> None:
        """Change over at run time, as auto asks for."""
        self._apply(replace(self.policies, routing=names["routing"], inbox=names["inbox"], replay=names["replay"]))
        self._monitor.apply(self.policies)

    # -- the way of a tuple ----------------------------------------------------------------------------------------

    def _send_root(self, source: SourceTask, attempt: Attempt) -> None:
        root, spec = attempt.root, self.model.source
        attempt.pending = 1  # held until all outputs are out
        for edge in self._edges["source"]:
            size = round(spec.bytes.draw(self._draws))
            self._send(edge, source.index, self._source_nodes[source.index], attempt, root.lineage, [0], size)
        self._settle(attempt)

    def _done(self, task: TaskServer, item: Item) -> None:
        stage, attempt, draws = task.stage, item.attempt, self._draws
        item.edge.finished(item.sender, item.dest)
        for edge in self._edges[stage.name]:
            count = int(stage.fan_out.draw(draws))
            if count:
                keys = [int(stage.keys.draw(draws)) for _ in range(count)] if stage.keys else [item.key] * count
                size = round(stage.bytes.draw(draws))
                self._send(edge, task.index, task.node, attempt, item.lineage, keys, size)
        self._settle(attempt)

    def _settle(self, attempt: Attempt) -> None:
        attempt.pending -= 1
        if not attempt.pending:
            attempt.root.source.ended(attempt)

    def _send(
        self, edge: Edge, sender: int, node: int, attempt: Attempt, lineage: int, keys: list[int], size: int
    ) -> None:
        count = len(keys)
        attempt.pending += count
        origin = _NO_HEADS
        if edge.wants_heads:
            origin = Batch(keys, [count], numbers((attempt.root.id, attempt.incarnation, lineage)))
        tag = edge.number << 16
        uplink, agenda = self._uplinks.get(node), self.agenda
        for key, dest in zip(keys, edge.choose(sender, keys, origin), strict=True):
            item = Item(attempt, edge, sender, dest, mix(lineage, tag), key, size)
            tag += 1
            task = item.task
            if uplink is not None and task.node != node and not self._ways.near(node, task.node):
                uplink.put(self._outbox(node, edge, sender, dest), item)
                continue
            delay_ns = self._ways.delay_ns(node, task.node)
            if delay_ns:
                agenda.at(agenda.now_ns + delay_ns, task.group.arrive, item)
            else:
                task.group.arrive(item)

    def _outbox(self, node: int, edge: Edge, sender: int, dest: int) -> int:
        key = (edge.number, sender, dest if self.model.outbox_per == "destination" else -1)
        found = self._outboxes.get(key)
        if found is None:
            alone = edge.stage.inputs == ("source",) and self.model.source.tasks == 1
            found = self._outboxes[key] = self._uplinks[node].outbox(edge.number, dest, alone=alone)
        return found

    def _deliverer(self, node: int) -> Callable[[Item], None]:
        delay_ns = round(self.model.nodes[node].delay_us * _NS_PER_US)
        if not delay_ns:
            return _arrive
        return lambda item: self.agenda.at(self.agenda.now_ns + delay_ns, _arrive, item)

    # -- running ---------------------------------------------------------------------------------------------------

    def run(
        self, seconds: float, warm_s: float = 0.0, progress: Callable[[float], None] | None = None
    ) -> SimulationResult:
        """Let sources emit for so long, let what is open end, and sum up what was due after the warm-up."""
        end_ns, warm_ns = round(seconds * _NS_PER_S), round(warm_s * _NS_PER_S)
        self._apply(self.policies)
        self._monitor.start(self.policies, end_ns)
        for uplink in self._uplinks.values():
            uplink.measure_from(warm_ns)
        for source in self.sources:
            source.start(end_ns)
        with _no_collection():
            for step in range(1, 101):
                self.agenda.run(end_ns * step // 100)
                if progress:
                    progress(step / 100)
            self.agenda.run(end_ns * (1 + _DRAIN))
        return self._result(seconds, warm_ns)

    def done(self, stage: str) -> list[int]:
        """Tuples that each task of a stage has done."""
        return [task.done for task in self._tasks[stage]]

    def _result(self, seconds: float, warm_ns: int) -> SimulationResult:
        found = sorted(pair for source in self.sources for pair in source.latencies_ns if pair[0] >= warm_ns)
        thin = max(1, len(found) // _TIMELINE_POINTS)
        return SimulationResult(
            latencies_ns=tuple(sorted(latency for _, latency in found)),
            emitted=sum(source.emitted for source in self.sources),
            completed=sum(source.completed for source in self.sources),
            replays=sum(source.replays for source in self.sources),
            hops=sum(task.done for tasks in self._tasks.values() for task in tasks),
            seconds=seconds,
            stages={stage.name: self._stage_result(stage, seconds) for stage in self.model.stages},
            backlogs=tuple(most for uplink in self._uplinks.values() for most in uplink.most),
            outbox_p99_ms=tuple(
                percentile(sorted(waits), 0.99) / _NS_PER_MS
                for uplink in self._uplinks.values()
                for waits in uplink.waits_ns
                if waits
            ),
            tuple_wait_ms=self._tuple_wait_ms(),
            shares=tuple(self._monitor.shares),
            switches=tuple(self._monitor.switches),
            timeline=tuple((born / _NS_PER_S, latency / _NS_PER_MS) for born, latency in found[::thin]),
        )

    def _tuple_wait_ms(self) -> float:
        waits = [wait for uplink in self._uplinks.values() for waits in uplink.waits_ns for wait in waits]
        return sum(waits) / max(1, len(waits)) / _NS_PER_MS

    def _stage_result(self, stage: StageModel, seconds: float) -> StageResult:
        tasks = self._tasks[stage.name]
        done = sum(task.done for task in tasks)
        wait_ms = sum(task.waited_ns for task in tasks) / max(1, done) / _NS_PER_MS
        return StageResult(stage.name, done, wait_ms, sum(task.busy_ns for task in tasks) / len(tasks) / seconds / 1e9)


class Ways:
    """How long a tuple is under way between two nodes: by whether they are one, on one host, or far."""

    def __init__(self, model: Model) -> None:
        self._hosts = model.hosts
        self._some_near = len(set(model.hosts)) < len(model.hosts)
        self._far_ns = [round(node.delay_us * _NS_PER_US) for node in model.nodes]
        self._near_ns = [round(node.near_us * _NS_PER_US) for node in model.nodes]
        self._own_ns = [round(node.own_us * _NS_PER_US) for node in model.nodes]

    def near(self, node: int, to: int) -> bool:
        """Whether two nodes share a host."""
        return self._some_near and self._hosts[node] == self._hosts[to]

    def delay_ns(self, node: int, to: int) -> int:
        """From one node to another."""
        if node == to:
            return self._own_ns[node]
        return self._near_ns[node] if self.near(node, to) else self._far_ns[node]


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Spare the garbage collector, a third of the time: tuples leave no cycles behind."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _arrive(item: Item) -> None:
    item.task.group.arrive(item)


def run(
    model: Model, policies: Policies, *, seconds: float, warm_s: float = 0.0, seed: int | str = 1
) -> SimulationResult:
    """Run one arm from the start."""
    return Engine(model, policies, seed).run(seconds, warm_s)
