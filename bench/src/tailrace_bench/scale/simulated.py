"""The coordinator's brain with simulated workers: what reports of many cost it, without starting any.

The brain is the real one; messages are real too and go through the codec both ways, once per simulated second and
worker. Sockets are left out.
"""

from __future__ import annotations

import platform
import time
from typing import TYPE_CHECKING

import msgspec

from tailrace import protocol
from tailrace.config import Policy, Settings
from tailrace.connect import sinks, sources
from tailrace.coordinator.brain import CoordinatorBrain
from tailrace.coordinator.deployment import deal_partitions
from tailrace.program.program import Program
from tailrace.reports import REST, EdgeReport, LatencyReport, TaskReport, WorkerReport
from tailrace.topology.graph import Topology
from tailrace.topology.plan import make_plan
from tailrace.version import __version__

if TYPE_CHECKING:
    from tailrace.topology.plan import Stage

_NS_PER_S = 1_000_000_000
_TICKS_PER_S = 20
_BUCKETS = range(600, 640)


def _program(workers: int) -> Program:
    flow = Topology("simulated")
    tasks = max(1, workers // 2)
    lines = flow.source(sources.rate(1000.0, str), tasks=1)
    lines.flat_map(str.split, tasks=tasks).key_by(str).count(tasks=tasks).sink(sinks.discard())
    return Program(make_plan(flow), Policy(), Settings())


def _registration(slot: int) -> protocol.Register:
    peer = protocol.Peer(slot=slot, attempt=0, host=f"node-{slot // 8}", tcp=("127.0.0.1", 1 + slot))
    return protocol.Register(slot, 1, 1 + slot, str(slot), peer, __version__, platform.python_version())


def _latency() -> LatencyReport:
    return LatencyReport(dict.fromkeys(_BUCKETS, 25), 5_000_000, 1_000_000_000)


def _reports(program: Program, placement: list[list[int]], workers: int, second: int) -> list[protocol.Report]:
    """What ``worker.reports`` of each worker would say: every task busy, every edge in use."""
    plan, edges_max = program.plan, program.settings.edges_reported_max
    tasks: list[list[TaskReport]] = [[] for _ in range(workers)]
    edges: list[list[EdgeReport]] = [[] for _ in range(workers)]
    for stage in plan.stages:
        for task, slot in enumerate(placement[stage.id]):
            tasks[slot].append(_task_report(stage, task, second))
            for edge in plan.outputs[stage.id]:
                receivers = plan.stages[edge.dst_stage].tasks
                pairs = [(task, to) for to in range(min(receivers, edges_max))]
                rest = [(REST, REST)] if receivers > edges_max else []
                edges[slot] += [EdgeReport(edge.id, *pair, 100 * second, 1000 * second) for pair in pairs + rest]
    return [
        protocol.Report(
            WorkerReport(second, tuple(tasks[slot]), tuple(edges[slot]), (), (), 1_000_000 * second, 1000 * second), {}
        )
        for slot in range(workers)
    ]


def _task_report(stage: Stage, task: int, second: int) -> TaskReport:
    row = TaskReport(
        stage.id,
        task,
        "inline",
        tuples_in=10_000 * second,
        tuples_out=10_000 * second,
        busy_ns=500_000_000 * second,
        cpu_ns=400_000_000 * second,
        outbox=10,
    )
    if stage.is_source:
        done = 1000 * second
        return msgspec.structs.replace(row, read=done, pending=5, completed=done, complete=_latency())
    waited = {"inbox": 20, "inbox_most": 200, "waited_ns": 1_000_000 * second, "latency": _latency()}
    return msgspec.structs.replace(row, **waited)


def coordinator_cores(workers: int, seconds: int = 5) -> float:
    """CPU seconds per simulated second, once all workers are open."""
    program = _program(workers)
    brain = CoordinatorBrain(
        "simulated", program, workers, deal_partitions(program.plan), platform.python_version()
    )  # fmt: skip
    now_ns = _NS_PER_S
    brain.tick(now_ns)
    for message in (_registration, lambda _: protocol.Deployed()):
        for slot in range(workers):
            brain.on_message(slot, slot, message(slot), now_ns)
    brain.out.clear()
    reports = [
        [protocol.encode(report) for report in _reports(program, brain.placement, workers, second)]
        for second in range(1, seconds + 1)
    ]
    began_s = time.process_time()
    for each in reports:
        for tick in range(_TICKS_PER_S):
            now_ns += _NS_PER_S // _TICKS_PER_S
            for slot in range(tick, workers, _TICKS_PER_S):
                brain.on_message(slot, slot, protocol.decode_from_worker(each[slot]), now_ns)
            brain.tick(now_ns)
            while brain.out:
                protocol.encode(brain.out.popleft()[1])
    return (time.process_time() - began_s) / seconds
