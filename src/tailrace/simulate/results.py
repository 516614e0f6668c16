"""What a run gave: latencies, waits, backlogs and counts, and the figures made of them. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_NS_PER_MS = 1e6


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that ``share`` of all values, which are in order, do not exceed; not a number when there are none."""
    if not ordered:
        return math.nan
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


@dataclass(frozen=True)
class StageResult:
    """One stage over the measured time."""

    name: str
    done: int
    mean_wait_ms: float
    use: float


@dataclass(frozen=True)
class SimulationResult:
    """One run of one arm."""

    latencies_ns: tuple[int, ...]
    """Of roots due in the measured time, in order."""
    emitted: int
    completed: int
    replays: int
    hops: int
    seconds: float
    stages: dict[str, StageResult]
    #: Per outbox of limited uplinks: most tuples waiting, and the p99 of the wait.
    backlogs: tuple[int, ...] = ()
    outbox_p99_ms: tuple[float, ...] = ()
    #: Mean wait of a tuple in front of a limited uplink.
    tuple_wait_ms: float = 0.0
    #: (second, shares) of the first balanced edge.
    shares: tuple[tuple[float, tuple[float, ...]], ...] = ()
    switches: tuple[tuple[float, str], ...] = ()
    #: (second due, latency in ms), thinned out, for plots.
    timeline: tuple[tuple[float, float], ...] = field(default=(), repr=False)

    def ms(self, share: float) -> float:
        """A percentile of complete latency."""
        return percentile(self.latencies_ns, share) / _NS_PER_MS

    @property
    def mean_ms(self) -> float:
        """The mean of complete latency."""
        return sum(self.latencies_ns) / len(self.latencies_ns) / _NS_PER_MS if self.latencies_ns else math.nan

    @property
    def max_backlog(self) -> int:
        """Most tuples that any outbox held."""
        return max(self.backlogs, default=0)

    @property
    def extra_load(self) -> float:
        """Replays per root."""
        return self.replays / self.emitted if self.emitted else 0.0

    def within(self, ms: float) -> float:
        """Share of roots complete within a time."""
        return bisect_left(self.latencies_ns, ms * _NS_PER_MS) / max(1, len(self.latencies_ns))

    def figures(self) -> dict[str, float]:
        """The figures of a comparison, by name."""
        found = {
            "mean_ms": self.mean_ms,
            "p50_ms": self.ms(0.50),
            "p90_ms": self.ms(0.90),
            "p99_ms": self.ms(0.99),
            "p999_ms": self.ms(0.999),
            "throughput_per_s": self.completed / self.seconds,
            "extra_load": self.extra_load,
            "samples": float(len(self.latencies_ns)),
        }
        if self.backlogs:
            found["max_backlog"] = float(self.max_backlog)
            found["tuple_wait_ms"] = self.tuple_wait_ms
            found["slowest_task_p99_ms"] = max(self.outbox_p99_ms)
        if self.switches:
            found["switches"] = float(len(self.switches))
        return found
