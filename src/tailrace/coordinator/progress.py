"""Adds the workers' reports up to what ``lastProgress`` shows: rates, queues, latencies, counts.

Counters in reports are totals of one attempt of a worker; what a lost worker had counted is kept. Rows are per operator
stage, per task, per edge and per node, all plain data that turns into JSON.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace.metrics.histogram import Histogram

from .stuck import stuck_rows

if TYPE_CHECKING:
    from tailrace.topology.plan import Plan

    from .brain import CoordinatorBrain

_NS_PER_S = 1_000_000_000
_COUNTERS = (
    "in", "out", "busy_ns", "cpu_ns", "waited_ns", "skipped", "dead_letters", "duplicates", "read", "completed",
    "replays",
)  # fmt: skip
#: What a query shows of all its stages together, besides what it has read.
_HAPPENED = ("replays", "duplicates", "skipped", "deadLetters")
_GAUGES = ("inbox", "outbox", "outbox_bytes", "pending", "pending_bytes")
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
        self._rows: dict[int, dict[tuple[int, int], Row]] = {}
        #: The worker that has reported on each task last.
        self._home: dict[tuple[int, int], int] = {}
        self._edges: dict[int, list[list[int]]] = {}
        self._sent_bytes: dict[int, int] = {}
        self._past: dict[tuple[int, str], int] = {}
        self._before: dict[Any, int] = {}
        self._closed_ns = 0
        self._sequence = 0
        #: Workers that have reported since the last progress was written down.
        self.reported: set[int] = set()

    def take(self, slot: int, snapshot: Row) -> None:
        """Take a worker's report in."""
        rows = self._rows.setdefault(slot, {})
        for row in snapshot["tasks"]:
            key = row["stage"], row["task"]
            rows[key] = row
            if (before := self._home.get(key, slot)) != slot:
                self._rows.get(before, {}).pop(key, None)  # it has moved, and its counts with it
            self._home[key] = slot
            if (complete := row.pop("complete", None)) is not None:
                self._latency_period.merge(Histogram(**complete))
            if (latency := row.pop("latency", None)) is not None:
                self._task_latency.setdefault(key, Histogram()).merge(Histogram(**latency))
        self.reported.add(slot)
        self._edges[slot] = snapshot["edges"]
        self._sent_bytes[slot] = snapshot["sent_bytes"]

    def forget(self, slot: int) -> None:
        """A worker was lost: keep what it counted, drop its queues."""
        for (stage, _), row in self._rows.pop(slot, {}).items():
            for name in _COUNTERS:
                self._past[stage, name] = self._past.get((stage, name), 0) + row.get(name, 0)
        self._edges.pop(slot, None)

    def close_period(self, now_ns: int, brain: CoordinatorBrain) -> None:
        """Write down the progress since the last time."""
        seconds = max(1e-9, (now_ns - self._closed_ns) / _NS_PER_S) if self._closed_ns else 1.0
        sums = self._totals()
        stages = [self._stage(stage.id, sums, seconds) for stage in self._plan.stages]
        tasks = self._tasks(seconds)
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
                "latency": percentiles(self._latency_period),
                "stages": stages,
                "tasks": tasks,
                "edges": self._edge_rows(),
                "nodes": self._nodes(brain),
                "balancing": brain.balancing.rows(),
                "auto": brain.autopilot.row(),
                "traffic": brain.measured.close_period(seconds, brain.placement, brain.hosts),
                "moves": brain.moves.rows(),
                "rebalancing": brain.rebalancing.row(),
                "stuck": stuck_rows(brain.members),
            }
        )
        self._latency_period = Histogram()
        self._task_latency.clear()
        self.reported.clear()
        self._before = {**sums, **self._task_counters()}
        self._closed_ns = now_ns

    def _totals(self) -> dict[Any, int]:
        """Counters and gauges per stage."""
        sums: dict[Any, int] = dict(self._past)
        for rows in self._rows.values():
            for (stage, _), row in rows.items():
                for name in (*_COUNTERS, *_GAUGES):
                    if name in row:
                        sums[stage, name] = sums.get((stage, name), 0) + row[name]
                sums[stage, "inbox_most"] = max(sums.get((stage, "inbox_most"), 0), row.get("inbox_most", 0))
        return sums

    def _stage(self, stage: int, sums: dict[Any, int], seconds: float) -> Row:
        def total(name: str) -> int:
            return sums.get((stage, name), 0)

        def rate(name: str) -> float:
            return round((total(name) - self._before.get((stage, name), 0)) / seconds, 1)

        row: Row = {
            "operators": [spec.name for spec in self._plan.stages[stage].operators],
            "in": total("in"),
            "out": total("out"),
            "inPerSecond": rate("in"),
            "outPerSecond": rate("out"),
            "busy": round(rate("busy_ns") / _NS_PER_S, 4),
            "inbox": total("inbox"),
            "inboxMost": total("inbox_most"),
            "outbox": total("outbox"),
            "outboxBytes": total("outbox_bytes"),
            "skipped": total("skipped"),
            "deadLetters": total("dead_letters"),
            "duplicates": total("duplicates"),
        }
        if (stage, "read") in sums:
            row |= {name: total(name) for name in ("read", "completed", "pending", "replays")}
            row |= {"pendingBytes": total("pending_bytes"), "readPerSecond": rate("read")}
        return row

    def _task_counters(self) -> dict[Any, int]:
        return {
            ("task", key, name): row.get(name, 0)
            for rows in self._rows.values()
            for key, row in rows.items()
            for name in ("in", "out", "busy_ns", "cpu_ns", "waited_ns")
        }

    def _tasks(self, seconds: float) -> list[Row]:
        """Per task: rates, utilisation, and what a tuple cost and waited in this period."""
        found = []
        for slot, rows in sorted(self._rows.items()):
            for key, row in sorted(rows.items()):
                grown = {
                    name: row.get(name, 0) - self._before.get(("task", key, name), 0)
                    for name in ("in", "out", "busy_ns", "cpu_ns", "waited_ns")
                }
                tuples = max(1, grown["in"])
                shown: Row = {
                    "operators": [spec.name for spec in self._plan.stages[key[0]].operators],
                    "task": key[1],
                    "worker": slot,
                    "runs": row["mode"],
                    "inPerSecond": round(grown["in"] / seconds, 1),
                    "outPerSecond": round(grown["out"] / seconds, 1),
                    "utilisation": round(grown["busy_ns"] / seconds / _NS_PER_S, 4),
                    "cpuPerTuple_us": round(grown["cpu_ns"] / tuples / 1000, 3),
                    "service_us": round(grown["busy_ns"] / tuples / 1000, 3),
                    "waiting_us": round(grown["waited_ns"] / tuples / 1000, 3),
                    "inbox": row.get("inbox", 0),
                    "outbox": row.get("outbox", 0),
                    "outboxBytes": row.get("outbox_bytes", 0),
                }
                if "uplink" in row:
                    shown |= {"uplink": row["uplink"], "uplinkMost": row["uplink_most"]}
                if "timeout_ns" in row:
                    shown["replayTimeout_ms"] = round(row["timeout_ns"] / 1e6, 3)
                if key in self._task_latency:
                    shown["latency"] = percentiles(self._task_latency[key])
                found.append(shown)
        return found

    def _edge_rows(self) -> list[Row]:
        """Per pair of tasks: what was sent in all. A pair within one worker is handed over and has no bytes."""
        found = []
        rest = [0, 0]
        for rows in self._edges.values():
            for edge, sender, receiver, tuples, sent_bytes in rows:
                if sender < 0:
                    rest = [rest[0] + tuples, rest[1] + sent_bytes]
                    continue
                ends = self._plan.edges[edge]
                found.append(
                    {
                        "from": f"{ends.src}[{sender}]",
                        "to": f"{self._plan.stages[ends.dst_stage].head.name}[{receiver}]",
                        "tuples": tuples,
                        "bytes": sent_bytes,
                    }
                )
        if rest[0]:
            found.append({"from": "others", "to": "others", "tuples": rest[0], "bytes": rest[1]})
        return found

    def _nodes(self, brain: CoordinatorBrain) -> dict[str, Row]:
        nodes: dict[str, Row] = {}
        for slot, member in brain.members.items():
            node = nodes.setdefault(member.peer.node_name, {"workers": 0, "sent_bytes": 0, "cpu_s": 0.0, "busy": 0.0})
            node["workers"] += 1
            node["busy"] = max(node["busy"], round(member.snapshot.get("machine", 0.0), 4))
            node["sent_bytes"] += self._sent_bytes.get(slot, 0)
            node["cpu_s"] += sum(row.get("cpu_ns", 0) for row in self._rows.get(slot, {}).values()) / _NS_PER_S
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
