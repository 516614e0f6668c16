"""Runs a case: one query per policy, all open at once, each offered its rate in turn, round by round.

Nodes are groups of worker processes with a host name of their own; between them goes TCP with a fixed delay
(``testing.links``), within them whatever the arm says.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.query import Query
from tailrace.coordinator.reporting.latency import latency_so_far, since
from tailrace.testing.processes import ProcessHost
from tailrace.worker.machine_load import MachineLoad
from tailrace_bench.arms.base import wait_for
from tailrace_bench.errors import ArmError
from tailrace_bench.peers.panel import LEAD_NS, Panel

from .cases import BUSY_SHARE, LINK_DELAY_MS, RAISED_BY
from .flows import Clockings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.metrics.histogram import Histogram
    from tailrace_bench.measurement.pace import Pace

    from .cases import ArmSpec, TopologyCase, TopologyTimes

_MS_PER_NS = 1e-6
_REPORTS_S_MAX = 20.0
OPEN_S, CLOSE_S = 1.5, 0.5
#: How often a rate is raised, about, and where that ends at the latest.
_RAISES, _PER_S_MAX = 5, 20_000.0


@dataclass
class TopologyMeasurements:
    """What one arm gave at a rate: per round the mean times, and in the end its progress."""

    per_s: float
    complete_ms: list[float] = field(default_factory=list)
    sink_ms: list[float] = field(default_factory=list)
    progress: Mapping[str, Any] = field(default_factory=dict)


class PlacedArm:
    """One query of a case."""

    def __init__(self, case: TopologyCase, spec: ArmSpec, values: list[str], path: Path) -> None:
        self._case = case
        self._panel = Panel(f"{path}.panel", create=True)
        self._clockings = Clockings(f"{path}.times", create=True)
        flow = case.draw(self._panel.path, values, f"{path}.times")
        flow.validate()
        self._sources = next(each.tasks for each in flow.operators.values() if each.kind == "source") or 1
        host = ProcessHost(case.workers, hosts=case.hosts, link_delay_ms=LINK_DELAY_MS)
        self._query = Query(flow, host, spec.policy, spec.settings).start()
        self.measured = TopologyMeasurements(per_s=case.per_s)

    def offer(self, seconds: float, *, counts: bool = True) -> float:
        """Offer its rate for a time, wait for the last tuple and note the mean times; gives how busy that was."""
        before, clocked = latency_so_far(self._query), self._clockings.read()
        load = MachineLoad()
        self._panel.go(self.measured.per_s, seconds)
        time.sleep(seconds + LEAD_NS / 1e9)
        busy, now = load.since_last(), self._all_in()
        if counts:
            found, at_sink = since(before, now), self._clockings.read()
            self.measured.complete_ms.append(found.mean * _MS_PER_NS)
            if tuples := at_sink[1] - clocked[1]:
                self.measured.sink_ms.append((at_sink[0] - clocked[0]) / tuples * _MS_PER_NS)
        return busy

    def raise_rate(self, seconds: float) -> float:
        """Offer more and more until the machine is half busy; gives the rate that makes it so."""
        while self.offer(seconds, counts=False) < BUSY_SHARE and self.measured.per_s < _PER_S_MAX:
            self.measured.per_s *= RAISED_BY
        return self.measured.per_s

    def _all_in(self) -> Histogram:
        def done() -> bool:
            made = sum(self._panel.made(self._sources))
            return len(latency_so_far(self._query)) >= made

        if not wait_for(done, _REPORTS_S_MAX):
            raise ArmError(
                f"{self._case.name} was to complete {sum(self._panel.made(self._sources)):,} tuples and completed "
                f"{len(latency_so_far(self._query)):,}.",
                "The machine is too busy for this rate, or a query hangs.",
            )
        return latency_so_far(self._query)

    def close(self) -> None:
        """Drain and end; its last progress has all the traffic."""
        self._query.stop()
        self.measured.progress = self._query.lastProgress or {}

    def abort(self) -> None:
        """End it after a failure."""
        with contextlib.suppress(Exception):
            self._query.stop(now=True)


def planned_s(case: TopologyCase, times: TopologyTimes) -> float:
    """About how long a case takes."""
    per_arm_s = OPEN_S + CLOSE_S + times.warm_s + times.rounds * (times.offer_s + 0.6)
    return len(case.arms) * per_arm_s + case.until_busy * _RAISES * (times.warm_s + 0.6)


def run_case(case: TopologyCase, times: TopologyTimes, pace: Pace) -> dict[str, TopologyMeasurements]:
    """Measure all arms of a case; every other round they go in the opposite order."""
    values, per_s = case.values(), case.per_s
    arms: dict[str, PlacedArm] = {}
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder, contextlib.ExitStack() as stack:
        for number, (name, spec) in enumerate(case.arms.items()):
            pace.step(f"{case.name}: opening {name}", OPEN_S + times.warm_s)
            arms[name] = arm = PlacedArm(case, spec, values, Path(folder) / str(number))
            stack.callback(arm.abort)
            if case.until_busy and not number:
                pace.step(f"{case.name}: raising the rate", _RAISES * (times.warm_s + 0.6))
                per_s = arm.raise_rate(times.warm_s)
            arm.measured.per_s = per_s
            arm.offer(times.warm_s, counts=False)
        for turn in range(times.rounds):
            pace.step(f"{case.name}: round {turn + 1} of {times.rounds}", len(arms) * (times.offer_s + 0.6))
            for name in list(arms)[:: 1 if turn % 2 == 0 else -1]:
                arms[name].offer(times.offer_s)
        for arm in arms.values():
            arm.close()
    return {name: arm.measured for name, arm in arms.items()}
