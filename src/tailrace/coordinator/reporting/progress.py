"""Adds the workers' reports up to what ``lastProgress`` shows: rates, queues, latencies, counts.

Counters in reports are totals of one attempt of a worker; what a lost worker had counted is kept. Rows are per operator
stage, per task, per edge and per node, all plain data that turns into JSON.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.reporting.durability import checkpoint_row, recovery_row
from tailrace.coordinator.reporting.stuck import stuck_rows
from tailrace.coordinator.reporting.task_rows import TaskRows
from tailrace.metrics.histogram import Histogram
from tailrace.reports import REST

if TYPE_CHECKING:
    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.reporting.task_rows import PlacedRow, Placement
    from tailrace.reports import EdgeReport, WorkerReport
    from tailrace.topology.plan import Plan, Stage

_NS_PER_S = 1_000_000_000
_COUNTERS = (
    "tuples_in", "tuples_out", "busy_ns", "cpu_ns", "waited_ns", "skipped", "dead_letters", "duplicates", "read",
    "completed", "replays",
)  # fmt: skip
_GAUGES = ("inbox", "outbox", "outbox_bytes", "pending", "pending_bytes")
_SUMMED = _COUNTERS + _GAUGES
#: What the rates of a task are made of.
_RATED = ("tuples_in", "tuples_out", "busy_ns", "cpu_ns", "waited_ns")
#: What a query shows of all its stages together, besides what it has read.
_HAPPENED = ("replays", "duplicates", "skipped", "deadLetters")
_PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}

Row = dict[str, Any]


class ProgressBook:
    """Progress of one query."""

    def __init__(self, plan: Plan, kept: int) -> None:
        self.recent: deque[Row] = deque(maxlen=kept)
        self.latency_total = Histogram()
        self._plan = plan
        self._latency_period = Histogram()
        self._task_latency: dict[tuple[int, int], Histogram] = {}
        self._tasks = TaskRows()
        self._edges: dict[int, tuple[EdgeReport, ...]] = {}
        self._sent_bytes: dict[int, int] = {}
        self._past: dict[tuple[int, str], int] = {}
        self._before: dict[Any, int] = {}
        self._closed_ns = 0
        self._sequence = 0
        #: Workers that have reported since the last progress was written down.
        self.reported: set[int] = set()

    def add(self, slot: int, report: WorkerReport) -> None:
        """Add the latencies of a worker's report."""
        for row in report.tasks:
            if (complete := row.complete) is not None:
                self._latency_period.merge(Histogram(complete.counts, complete.most, complete.total))
            if (latency := row.latency) is not None:
                found = Histogram(latency.counts, latency.most, latency.total)
                self._task_latency.setdefault(row.key, Histogram()).merge(found)
        self.reported.add(slot)

    def take(self, slot: int, report: WorkerReport) -> None:
        """Let a worker's newest report stand for those before."""
        self._tasks.take(slot, report.tasks)
        self._edges[slot] = report.edges
        self._sent_bytes[slot] = report.sent_bytes

    def forget(self, slot: int, placement: Placement) -> None:
        """A worker was lost: keep what it counted, drop its queues."""
        for row in self._tasks.forget(slot, placement):
            for name in _COUNTERS:
                self._past[row.stage, name] = self._past.get((row.stage, name), 0) + getattr(row, name)
        self._edges.pop(slot, None)

    def begin_again(self, placement: Placement) -> None:
        """Everyone goes back to a cut: what was done stays counted, and is counted again when it is done again.

        What was open was not read, for it will be.
        """
        for row in self._tasks.forget_all(placement):
            for name in _COUNTERS:
                done = getattr(row, "completed" if name == "read" else name)
                self._past[row.stage, name] = self._past.get((row.stage, name), 0) + done
        self._edges.clear()

    def close_period(self, now_ns: int, brain: CoordinatorBrain) -> None:
        """Write down the progress since the last time."""
        seconds = max(1e-9, (now_ns - self._closed_ns) / _NS_PER_S) if self._closed_ns else 1.0
        present = self._tasks.present(brain.placement)
        sums = self._totals(present)
        stages = [self._stage(stage, sums, seconds) for stage in self._plan.stages]
        self.latency_total.merge(self._latency_period)
        self._sequence += 1
        self.recent.append(
            {
                "sequence": self._sequence,
                "timestamp": dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds"),
                "state": "draining" if brain.draining else brain.state,
                "workers": _workers(brain),
                "inputRowsPerSecond": sum(each.get("readPerSecond", 0.0) for each in stages),
                **{name: sum(each.get(name, 0) for each in stages) for name in ("read", "completed", "pending")},
                **{name: sum(each.get(name, 0) for each in stages) for name in _HAPPENED},
                "lostState": brain.lost_state.tasks,
                "checkpoints": checkpoint_row(brain, now_ns),
                "recoveries": recovery_row(brain),
                "latency": percentiles(self._latency_period),
                "stages": stages,
                "tasks": self._task_rows(present, seconds),
                "edges": self._edge_rows(),
                "nodes": self._nodes(present, brain),
                "balancing": brain.balancing.rows(),
                "auto": brain.autopilot.row(),
                "traffic": brain.measured.close_period(seconds, brain.placement, brain.hosts),
                "moves": brain.operations.rows(),
                "rebalancing": brain.rebalancing.row(),
                "stuck": stuck_rows(brain.members),
            }
        )
        self._latency_period = Histogram()
        self._task_latency.clear()
        self.reported.clear()
        self._before = sums | {(each.row.key, name): getattr(each.row, name) for each in present for name in _RATED}
        self._closed_ns = now_ns

    def _totals(self, present: list[PlacedRow]) -> dict[Any, int]:
        """Counters and gauges per stage."""
        sums: dict[Any, int] = dict(self._past)
        for _, row in present:
            stage = row.stage
            for name in _SUMMED:
                if value := getattr(row, name):
                    sums[stage, name] = sums.get((stage, name), 0) + value
            sums[stage, "inbox_most"] = max(sums.get((stage, "inbox_most"), 0), row.inbox_most)
        return sums

    def _stage(self, stage: Stage, sums: dict[Any, int], seconds: float) -> Row:
        def total(name: str) -> int:
            return sums.get((stage.id, name), 0)

        def rate(name: str) -> float:
            return round((total(name) - self._before.get((stage.id, name), 0)) / seconds, 1)

        row: Row = {
            "operators": [spec.name for spec in stage.operators],
            "in": total("tuples_in"),
            "out": total("tuples_out"),
            "inPerSecond": rate("tuples_in"),
            "outPerSecond": rate("tuples_out"),
            "busy": round(rate("busy_ns") / _NS_PER_S, 4),
            "inbox": total("inbox"),
            "inboxMost": total("inbox_most"),
            "outbox": total("outbox"),
            "outboxBytes": total("outbox_bytes"),
            "skipped": total("skipped"),
            "deadLetters": total("dead_letters"),
            "duplicates": total("duplicates"),
        }
        if stage.is_source:
            row |= {name: total(name) for name in ("read", "completed", "pending", "replays")}
            row |= {"pendingBytes": total("pending_bytes"), "readPerSecond": rate("read")}
        return row

    def _task_rows(self, present: list[PlacedRow], seconds: float) -> list[Row]:
        """Per task: rates, utilisation, and what a tuple cost and waited in this period."""
        found = []
        for slot, row in present:
            key = row.key
            grown = {name: getattr(row, name) - self._before.get((key, name), 0) for name in _RATED}
            tuples = max(1, grown["tuples_in"])
            shown: Row = {
                "operators": [spec.name for spec in self._plan.stages[row.stage].operators],
                "task": row.task,
                "worker": slot,
                "runs": row.mode,
                "inPerSecond": round(grown["tuples_in"] / seconds, 1),
                "outPerSecond": round(grown["tuples_out"] / seconds, 1),
                "utilisation": round(grown["busy_ns"] / seconds / _NS_PER_S, 4),
                "cpuPerTuple_us": round(grown["cpu_ns"] / tuples / 1000, 3),
                "service_us": round(grown["busy_ns"] / tuples / 1000, 3),
                "waiting_us": round(grown["waited_ns"] / tuples / 1000, 3),
                "inbox": row.inbox,
                "outbox": row.outbox,
                "outboxBytes": row.outbox_bytes,
            }
            if row.uplink is not None:
                shown |= {"uplink": row.uplink, "uplinkMost": row.uplink_most}
            if row.timeout_ns is not None:
                shown["replayTimeout_ms"] = round(row.timeout_ns / 1e6, 3)
            if key in self._task_latency:
                shown["latency"] = percentiles(self._task_latency[key])
            found.append(shown)
        return found

    def _edge_rows(self) -> list[Row]:
        """Per pair of tasks: what was sent in all. A pair within one worker is handed over and has no bytes."""
        found = []
        rest = [0, 0]
        for slot in sorted(self._edges):
            for row in self._edges[slot]:
                if row.sender == REST:
                    rest = [rest[0] + row.tuples, rest[1] + row.bytes]
                    continue
                ends = self._plan.edges[row.edge]
                found.append(
                    {
                        "from": f"{ends.src}[{row.sender}]",
                        "to": f"{self._plan.stages[ends.dst_stage].head.name}[{row.receiver}]",
                        "tuples": row.tuples,
                        "bytes": row.bytes,
                    }
                )
        if rest[0]:
            found.append({"from": "others", "to": "others", "tuples": rest[0], "bytes": rest[1]})
        return found

    def _nodes(self, present: list[PlacedRow], brain: CoordinatorBrain) -> dict[str, Row]:
        cpu_ns: Counter[int] = Counter()
        for slot, row in present:
            cpu_ns[slot] += row.cpu_ns
        nodes: dict[str, Row] = {}
        for slot, member in brain.members.items():
            node = nodes.setdefault(member.peer.node_name, {"workers": 0, "sent_bytes": 0, "cpu_s": 0.0, "busy": 0.0})
            node["workers"] += 1
            node["busy"] = max(node["busy"], round(member.report.process.machine_load, 4))
            node["sent_bytes"] += self._sent_bytes.get(slot, 0)
            node["cpu_s"] += cpu_ns[slot] / _NS_PER_S
        return nodes


def _workers(brain: CoordinatorBrain) -> Row:
    return {
        "expected": len(brain.members),
        "alive": sum(member.alive for member in brain.members.values()),
        "restarts": brain.restarts,
    }


def percentiles(histogram: Histogram) -> dict[str, float]:
    """The latencies people ask for, in milliseconds."""
    shown = {name: round(histogram.percentile(share) / 1e6, 3) for name, share in _PERCENTILES.items()}
    shown["max_ms"] = round(histogram.most / 1e6, 3)
    shown["mean_ms"] = round(histogram.mean / 1e6, 3)
    shown["count"] = len(histogram)
    return shown
