"""Tailrace as an arm, hosted by Spark or by plain processes, tracked or not."""

from __future__ import annotations

import contextlib
from array import array
from typing import TYPE_CHECKING

from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.coordinator.reporting.latency import latency_so_far, since
from tailrace_bench.errors import ArmError
from tailrace_bench.flows import flow_of, times_path
from tailrace_bench.measurement import inside
from tailrace_bench.measurement.arrivals import Arrivals

from .base import Arm, last_came, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tailrace.checkpoint.settings import Checkpoint
    from tailrace.coordinator.interfaces import Host
    from tailrace.metrics.histogram import Histogram
    from tailrace.topology.graph import Topology
    from tailrace_bench.flows import PanelSink

WORKERS = 3
TASKS = 2
#: Reports come a little more often than by default, so that a short offer's latencies are all in soon after its end.
PROGRESS_S = 0.5
_REPORTS_S_MAX = 10.0
SETTINGS = Settings(progress_s=PROGRESS_S)


class EngineArm(Arm):
    """A running query."""

    def __init__(
        self,
        name: str,
        kind: str,
        folder: Path,
        host: Callable[[], Host],
        *,
        policy: Policy | None = None,
        settings: Settings = SETTINGS,
        tasks: int = TASKS,
        timed: bool = False,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        super().__init__(name, kind, folder, tasks)
        self.setup = settings.ring_waiting
        self._timed = timed
        #: Complete latencies of each offer: until the last ack is back at the source.
        self.completes: list[Histogram] = []
        self._host = host
        self._policy = policy or Policy()
        self._settings = settings
        self._tasks = tasks
        self._checkpoint = checkpoint
        self.query: Query | None = None

    def open(self) -> None:
        """Start the query."""
        flow, self._sink = self.draw()
        flow.validate()
        query = Query(flow, self._host(), self._policy, self._settings, self._checkpoint)
        self.query = query.start()
        self._before = latency_so_far(query)
        if self._timed:
            self._arrivals = [Arrivals(times_path(self.panel.path, task)) for task in range(self._tasks)]

    def draw(self) -> tuple[Topology, PanelSink]:
        """Draw what it runs."""
        return flow_of(self.kind, self.panel.path, self.values, self._tasks, timed=self._timed)

    def pids(self) -> list[int]:
        """The workers."""
        return inside.worker_pids(self._running)

    @property
    def _running(self) -> Query:
        if self.query is None:
            raise ArmError(f"{self.name} was to be measured before it was opened.", "Open it first.")
        return self.query

    def offer(self, per_s: float, seconds: float) -> Histogram:
        """Wait until what was reported covers all that was made before, so that only the offer's latencies count."""
        made = sum(self.panel.made(self.partitions))
        wait_for(lambda: len(latency_so_far(self._running)) >= made, _REPORTS_S_MAX)
        self._before = latency_so_far(self._running)
        return super().offer(per_s, seconds)

    def latencies(self, records: int) -> Histogram:
        """Of each record the time from when it was due until the last of its items came to a sink."""
        complete = self._complete(records)
        if not self._timed:
            return complete
        self.completes.append(complete)
        pairs = array("q")
        for arrivals in self._arrivals:
            pairs.extend(arrivals.fresh())
        return last_came(self.name, pairs, records)

    def _complete(self, records: int) -> Histogram:
        """Wait for the workers' reports; every root gives one latency."""

        def all_in() -> bool:
            return len(since(self._before, latency_so_far(self._running))) >= records

        if not wait_for(all_in, _REPORTS_S_MAX):
            raise ArmError(
                f"{self.name} was to report {records:,} latencies and reported "
                f"{len(latency_so_far(self._running)) - len(self._before):,}.",
                "Only a tracked query measures complete latency.",
            )
        now = latency_so_far(self._running)
        found, self._before = since(self._before, now), now
        return found

    def abort(self) -> None:
        """End it without finishing what is open."""
        if self.query is not None:
            with contextlib.suppress(Exception):
                self.query.stop(now=True)

    def close(self) -> list[dict[str, int]]:
        """Drain and end; with tracking, every root must have come to its end by itself."""
        if self.query is None:
            return []
        query, self.query = self.query, None
        query.stop()
        progress = query.lastProgress
        made = sum(self.panel.made(self.partitions))
        if self._policy.tracked and progress is not None and progress["completed"] != made:
            raise ArmError(
                f"{self.name} made {made:,} roots and {progress['completed']:,} were acked.", "This is a defect."
            )
        return self._sink.parts
