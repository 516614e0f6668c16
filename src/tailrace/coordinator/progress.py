"""Adds the workers' reports up to what ``lastProgress`` shows: rates, queues, latencies, counts.

Counters in reports are totals of one attempt of a worker; what a lost worker had counted is kept.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace.metrics.histogram import Histogram

if TYPE_CHECKING:
    from tailrace.topology.plan import Plan

    from .brain import CoordinatorBrain

_NS_PER_S = 1_000_000_000
_COUNTERS = ("in", "out", "busy_ns", "waited_ns", "skipped", "duplicates", "read", "completed", "replays")
_GAUGES = ("inbox", "outbox", "pending")
_PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}


class ProgressBook:
    """Progress of one query."""

    def __init__(self, plan: Plan, kept: int) -> None:
        self.recent: deque[dict[str, Any]] = deque(maxlen=kept)
        self.latency_total = Histogram()
        self._latency_period = Histogram()
        self._stages = {stage.id: [spec.name for spec in stage.operators] for stage in plan.stages}
        self._rows: dict[int, dict[tuple[int, int], dict[str, Any]]] = {}
        self._past: dict[tuple[int, str], int] = {}
        self._before: dict[tuple[int, str], int] = {}
        self._closed_ns = 0
        self._sequence = 0

    def take(self, slot: int, attempt: int, snapshot: dict[str, Any]) -> None:
        """Take a worker's report in."""
        del attempt
        rows = self._rows.setdefault(slot, {})
        for row in snapshot["tasks"]:
            rows[row["stage"], row["task"]] = row
            latency = row.pop("latency", None)
            if latency is not None:
                self._latency_period.merge(Histogram(latency["counts"], latency["most"], latency["total"]))

    def forget(self, slot: int) -> None:
        """A worker was lost: keep what it counted, drop its queues."""
        for (stage, _), row in self._rows.pop(slot, {}).items():
            for name in _COUNTERS:
                self._past[stage, name] = self._past.get((stage, name), 0) + row.get(name, 0)

    def totals(self) -> dict[tuple[int, str], int]:
        """Counters and gauges per stage."""
        sums = dict(self._past)
        for rows in self._rows.values():
            for (stage, _), row in rows.items():
                for name in (*_COUNTERS, *_GAUGES):
                    sums[stage, name] = sums.get((stage, name), 0) + row.get(name, 0)
                most = row.get("inbox_most", 0)
                sums[stage, "inbox_most"] = max(sums.get((stage, "inbox_most"), 0), most)
        return sums

    def close_period(self, now_ns: int, brain: CoordinatorBrain) -> None:
        """Write down the progress since the last time."""
        sums = self.totals()
        seconds = max(1e-9, (now_ns - self._closed_ns) / _NS_PER_S) if self._closed_ns else 1.0
        stages = [self._stage(stage, sums, seconds) for stage in self._stages]
        self.latency_total.merge(self._latency_period)
        self._sequence += 1
        progress = {
            "sequence": self._sequence,
            "timestamp": dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds"),
            "state": "draining" if brain.draining else brain.state,
            "workers": {
                "expected": len(brain.members),
                "alive": sum(member.alive for member in brain.members.values()),
                "restarts": brain.restarts,
            },
            "inputRowsPerSecond": sum(each.get("readPerSecond", 0.0) for each in stages),
            "completed": sum(each.get("completed", 0) for each in stages),
            "pending": sum(each.get("pending", 0) for each in stages),
            "replays": sum(each.get("replays", 0) for each in stages),
            "duplicates": sum(each.get("duplicates", 0) for each in stages),
            "skipped": sum(each.get("skipped", 0) for each in stages),
            "latency": percentiles(self._latency_period),
            "stages": stages,
        }
        self._latency_period = Histogram()
        self._before, self._closed_ns = sums, now_ns
        self.recent.append(progress)

    def _stage(self, stage: int, sums: dict[tuple[int, str], int], seconds: float) -> dict[str, Any]:
        def total(name: str) -> int:
            return sums.get((stage, name), 0)

        def rate(name: str) -> float:
            return round((total(name) - self._before.get((stage, name), 0)) / seconds, 1)

        row: dict[str, Any] = {
            "operators": self._stages[stage],
            "in": total("in"),
            "out": total("out"),
            "inPerSecond": rate("in"),
            "outPerSecond": rate("out"),
            "busy": round(rate("busy_ns") / _NS_PER_S, 4),
            "inbox": total("inbox"),
            "inboxMost": total("inbox_most"),
            "outbox": total("outbox"),
            "skipped": total("skipped"),
            "duplicates": total("duplicates"),
        }
        if (stage, "read") in sums:
            row |= {name: total(name) for name in ("read", "completed", "pending", "replays")}
            row["readPerSecond"] = rate("read")
        return row


def percentiles(histogram: Histogram) -> dict[str, float]:
    """The latencies people ask for, in milliseconds."""
    shown = {name: round(histogram.percentile(share) / 1e6, 3) for name, share in _PERCENTILES.items()}
    shown["max_ms"] = round(histogram.most / 1e6, 3)
    shown["mean_ms"] = round(histogram.mean / 1e6, 3)
    shown["count"] = len(histogram)
    return shown
