"""Workers with state that are killed: from the SIGKILL until results come as promptly as before.

A paced count runs on Spark; a sink writes down when each result came. Back at full rate is where the last result came
that was later than results were before the kill. Arms: a cold restart, a warm standby, plain processes (what of it is
Spark's own restart of the task shows in the difference, and as a row), and Spark's micro-batches.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.checkpoint.settings import Checkpoint
from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.testing.processes import ProcessHost
from tailrace_bench.errors import ArmError
from tailrace_bench.reporting.rows import limit_row, make_row
from tailrace_bench.tails.arms import WORKERS, hosts_of

from .flow import counted_flow, read_journal
from .spark_peer import PEER_BETWEEN_S, peer_recoveries_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.coordinator.interfaces import Host
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

CASE = "recovery"
COLD, STANDBY, PROCESSES, SPARK = "cold", "standby", "processes", "spark"
PER_S, TASKS, PROCESS_WORKERS = 2000, 2, 3
COLD_P50_MS, COLD_MAX_MS, STANDBY_P50_MS = 1500.0, 4000.0, 300.0
#: Later than the p99 before the kill by more than this is late.
_SLACK_NS = 50_000_000
_WARM_S = 4.0
#: Between two kills: twice what a recovery may take.
_BETWEEN_S = 6.0
_GONE_S_MAX = 60.0
_MS_PER_NS, _NS_PER_S = 1e-6, 1_000_000_000
_POLL_S = 0.001


@dataclass
class Kills:
    """What the kills of one arm led to."""

    #: When each was, and when a successor of the killed worker had registered.
    killed_ns: list[int] = field(default_factory=list)
    successor_ms: list[float] = field(default_factory=list)
    recovery_ms: list[float] = field(default_factory=list)


def planned_s(kills: int) -> float:
    """About how long it takes."""
    return 3 * (_WARM_S + kills * (_BETWEEN_S + 2.0) + 4.0) + 30.0 + kills * PEER_BETWEEN_S + 20.0


def rows(kills: int, pace: Pace) -> list[Row]:
    """Measure all arms, one after the other: a killed worker would disturb another's."""
    found: dict[str, Kills] = {}
    with hosts_of(pace, spark=True) as hosts:
        for name, standby in ((COLD, 0), (STANDBY, 1)):
            found[name] = _arm(name, hosts.host, standby, kills, pace)
        found[PROCESSES] = _arm(PROCESSES, lambda _: ProcessHost(PROCESS_WORKERS), 0, kills, pace)
        pace.step("Spark's micro-batches with transformWithState", 20.0 + kills * PEER_BETWEEN_S)
        peer_ms = peer_recoveries_ms(hosts.session(WORKERS + 1), kills)
    return _rows(found, peer_ms)


def _rows(found: Mapping[str, Kills], peer_ms: list[float]) -> list[Row]:
    cold, standby = found[COLD].recovery_ms, found[STANDBY].recovery_ms
    return [
        limit_row(f"{CASE},{COLD}", "recovery_ms", "ms", cold, COLD_P50_MS),
        limit_row(f"{CASE},{COLD}", "recovery_max_ms", "ms", [max(cold)], COLD_MAX_MS),
        make_row(f"{CASE},{COLD}", "recovery_ms", "ms", cold, better="lower", baseline=SPARK, base=peer_ms),
        make_row(f"{CASE},{COLD}", "successor_ms", "ms", found[COLD].successor_ms, better="lower"),
        limit_row(f"{CASE},{STANDBY}", "recovery_ms", "ms", standby, STANDBY_P50_MS),
        make_row(f"{CASE},{STANDBY}", "recovery_max_ms", "ms", [max(standby)], better="lower"),
        make_row(f"{CASE},{PROCESSES}", "recovery_ms", "ms", found[PROCESSES].recovery_ms, better="lower"),
        make_row(f"{CASE},{SPARK}", "recovery_ms", "ms", peer_ms, better="lower"),
    ]


def _arm(name: str, host: Callable[[Settings], Host], standby: int, kills: int, pace: Pace) -> Kills:
    settings, found, rng = Settings(), Kills(), random.Random(name)  # noqa: S311 - it chooses workers
    with tempfile.TemporaryDirectory(prefix="tailrace-recovery-") as folder:
        notes, durable = Path(folder, "notes"), Checkpoint(Path(folder, "checkpoint"), standby=standby)
        notes.mkdir()
        pace.step(f"{name}: {kills} kills", _WARM_S + kills * _BETWEEN_S)
        query = Query(counted_flow(str(notes), PER_S, TASKS), host(settings), Policy(), settings, durable).start()
        try:
            time.sleep(_WARM_S)
            for _ in range(kills):
                _kill_one(query, rng, found)
                time.sleep(_BETWEEN_S)
        finally:
            query.stop(now=True)
        found.recovery_ms = recoveries_ms(read_journal(notes), found.killed_ns)
    return found


def _kill_one(query: Query, rng: random.Random, found: Kills) -> None:
    """Kill a worker that counts, and wait for its successor."""
    slot = rng.choice(sorted(set(query.workers_of("count"))))
    pid = query.worker_pids[slot]
    found.killed_ns.append(time.monotonic_ns())
    os.kill(pid, signal.SIGKILL)
    deadline_ns = found.killed_ns[-1] + int(_GONE_S_MAX * 1e9)
    while query.worker_pids.get(slot, pid) == pid:
        if time.monotonic_ns() > deadline_ns:
            raise ArmError(f"Worker {slot} was killed and none came in its place.", "Look at Spark's log.")
        time.sleep(_POLL_S)
    found.successor_ms.append((time.monotonic_ns() - found.killed_ns[-1]) * _MS_PER_NS)


def recoveries_ms(
    came: Mapping[int, int], killed_ns: list[int], before_s: float = 1.5, quiet_s: float = 1.0
) -> list[float]:
    """Of each kill the time until the last result that was later than before; at most until the next kill.

    What is late after none was for ``quiet_s`` has another cause.
    """
    found = []
    for at, killed in enumerate(killed_ns):
        end_ns = killed_ns[at + 1] if at + 1 < len(killed_ns) else max(came)
        begin_ns = killed - before_s * _NS_PER_S
        before = sorted(there - due for due, there in came.items() if begin_ns <= due and there < killed)
        if not before:
            raise ArmError(
                f"No result came in the {before_s:g} s before a worker was killed.", "The machine is too busy for it."
            )
        late_ns = before[int(0.99 * (len(before) - 1))] + _SLACK_NS
        last_ns = killed
        for there in sorted(
            there for due, there in came.items() if killed < there and due < end_ns and there - due > late_ns
        ):
            if there - last_ns > quiet_s * _NS_PER_S and last_ns > killed:
                break
            last_ns = there
        found.append((min(end_ns, last_ns) - killed) * _MS_PER_NS)
    return found
