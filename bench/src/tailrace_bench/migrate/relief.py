"""The case [slow_worker] of ``tailrace bench migrate``: a worker becomes four times slower, and the loop relieves it.

The same query as [stateless], whose waits a knob makes longer. How long until no task of the operator is on that
worker, and what the tail is once what had queued up there is worked off, against the tail before.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.testing.chaos import Knobs
from tailrace_bench.reporting.rows import limit_row, make_row, none_row

from .flow import OPERATOR, faults, flow_of, latencies_ms, p99_ms, read

if TYPE_CHECKING:
    from tailrace_bench.reporting.rows import Row
    from tailrace_bench.tails.arms import ArmHosts

NAME = "slow_worker"
TIMES_SLOWER = 4.0
RELIEVED_S_MAX = 10.0
P99_BAR = 1.5
_WARM_S = 3.0
_PATIENCE_S = 30.0
#: What queued up at the slow worker goes along and has to be worked off by what a task at 70 % has left.
_SETTLE_S = 15.0
_POLL_S = 0.05


def planned_s(window_s: float) -> float:
    """About how long it takes."""
    return _WARM_S + RELIEVED_S_MAX + _SETTLE_S + 2 * window_s


def rows(hosts: ArmHosts, window_s: float) -> list[Row]:
    """Run the case."""
    settings = Settings(progress_s=0.5)
    policy = Policy(chaining="off", rebalance="spread")
    with Knobs() as knobs, tempfile.TemporaryDirectory(prefix="tailrace-relief-") as folder:
        query = Query(flow_of("stateless", folder, settings, knobs), hosts.host(settings), policy, settings).start()
        try:
            time.sleep(_WARM_S)
            before = _window(window_s)
            relieved_s = _slow_down(query, knobs)
            time.sleep(_SETTLE_S)
            after = _window(window_s)
            query.stop()
        except BaseException:
            query.stop(now=True)
            raise
        by_key = read(Path(folder))
    lost, doubled, reordered = faults(by_key)
    everyone = frozenset(by_key)
    tails = [p99_ms(latencies_ms(by_key, window, everyone)) for window in (before, after)]
    return [
        limit_row(NAME, "relieved_s", "s", [relieved_s], RELIEVED_S_MAX),
        make_row(
            NAME, "p99_ms", "ms", tails[1:], better="lower", baseline="before", base=tails[:1], bar=P99_BAR
        ),
        none_row(NAME, "lost", lost),
        none_row(NAME, "doubled", doubled),
        none_row(NAME, "reordered", reordered),
    ]  # fmt: skip


def _window(seconds: float) -> tuple[int, int]:
    begun_ns = time.monotonic_ns()
    time.sleep(seconds)
    return begun_ns, time.monotonic_ns()


def _slow_down(query: Query, knobs: Knobs) -> float:
    """Make the worker of the operator's last task slow; gives the seconds until none of its tasks is there."""
    victim = query.workers_of(OPERATOR)[-1]
    begun_s = time.monotonic()
    knobs.slow(victim, TIMES_SLOWER)
    while victim in query.workers_of(OPERATOR) and time.monotonic() - begun_s < _PATIENCE_S:
        time.sleep(_POLL_S)
    return time.monotonic() - begun_s
