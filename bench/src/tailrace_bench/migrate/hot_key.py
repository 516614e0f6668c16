"""The case [hot_key] of ``tailrace bench migrate``: a key has 60 % of the traffic, and the others of its task leave it.

Three tasks whose work is a timed wait. The hot key alone is 0.88 of what a task can do, with a third of the other keys
beside it 1.07: their task falls behind for good. With the rebalancing loop on, the other keys' groups go to the other
tasks; without it they stay. Queries with and without it take turns, and what counts is the tail of all other keys at
the end of each.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.topology.graph import Topology
from tailrace_bench.reporting.rows import limit_row, make_row, none_row

from .flow import (
    KEYS,
    OPERATOR,
    SERVICE_S,
    Diary,
    Named,
    Paced,
    faults,
    keyed_work,
    latencies_ms,
    names_of,
    p99_ms,
    read,
)

if TYPE_CHECKING:
    from tailrace_bench.reporting.rows import Row
    from tailrace_bench.tails.arms import ArmHosts

    from .flow import ByKey

NAME = "hot_key"
TASKS = 3
HOT = 0
#: Of what a task can do, by the hot key alone; a timed wait takes a little longer than it says.
HOT_LOAD = 0.88
PER_S = HOT_LOAD / 0.6 / (SERVICE_S * 1.05)
OTHERS_BAR = 0.5
PAUSE_MS_MAX = 250.0
_SETTLE_S = 14.0
_DRAIN_S = 4.0


def planned_s(window_s: float, pairs: int) -> float:
    """About how long it takes."""
    return 2 * pairs * (_SETTLE_S + window_s + _DRAIN_S)


def key_of(number: int) -> tuple[int, int]:
    """The key of the n-th tuple and its number within the key: three in five are the hot key's, the rest in turn."""
    block, at = divmod(number, 5)
    if at < 3:  # noqa: PLR2004 - three in five
        return HOT, 3 * block + at
    other = 2 * block + at - 3
    return 1 + other % (KEYS - 1), other // (KEYS - 1)


def flow_of(folder: str, settings: Settings) -> Topology:
    """Source, the operator that has the hot key, and the sink."""
    flow = Topology("hot_key")
    source = flow.source(Paced(PER_S, key_of), tasks=1, name="numbers")
    # The names give the hot key's task its third of the other keys.
    keyed = source.key_by(Named(names_of(settings.key_groups, TASKS)))
    worked = keyed.process(keyed_work, tasks=TASKS, name=OPERATOR, blocking=True)
    worked.to_global().sink(Diary(folder), tasks=1, name="diary")
    return flow


def rows(hosts: ArmHosts, window_s: float, pairs: int) -> list[Row]:
    """Run the case."""
    tails: dict[str, list[float]] = {"spread": [], "off": []}
    hot: list[float] = []
    pauses: list[float] = []
    wrong = [0, 0, 0]
    for _ in range(pairs):
        for rebalance, found in tails.items():
            by_key, window, plans = _run(hosts, rebalance, window_s)
            found.append(p99_ms(latencies_ms(by_key, window, frozenset(by_key) - {HOT})))
            wrong = [before + more for before, more in zip(wrong, faults(by_key), strict=True)]
            if rebalance != "off":
                hot.append(p99_ms(latencies_ms(by_key, window, frozenset({HOT}))))
                pauses += [plan["pause_ms"] for plan in plans]
    return [
        make_row(NAME, "moves", "moves", [float(len(pauses))], better="higher"),
        none_row(NAME, "lost", wrong[0]),
        none_row(NAME, "doubled", wrong[1]),
        none_row(NAME, "reordered", wrong[2]),
        make_row(
            NAME, "others_p99_ms", "ms", tails["spread"], better="lower", baseline="without_moves", base=tails["off"],
            bar=OTHERS_BAR,
        ),
        limit_row(NAME, "pause_ms", "ms", [max(pauses, default=0.0)], PAUSE_MS_MAX),
        make_row(NAME, "hot_p99_ms", "ms", hot, better="lower"),
    ]  # fmt: skip


def _run(hosts: ArmHosts, rebalance: str, window_s: float) -> tuple[ByKey, tuple[int, int], list[dict[str, Any]]]:
    """One query; gives what arrived, the window that counts, and the plans of moves that were carried out."""
    settings = Settings(progress_s=0.5)
    policy = Policy(chaining="off", rebalance=rebalance)
    with tempfile.TemporaryDirectory(prefix="tailrace-hot-key-") as folder:
        query = Query(flow_of(folder, settings), hosts.host(settings), policy, settings).start()
        try:
            time.sleep(_SETTLE_S)
            begun_ns = time.monotonic_ns()
            time.sleep(window_s)
            ended_ns = time.monotonic_ns()
            query.stop()
        except BaseException:
            query.stop(now=True)
            raise
        plans = [plan for plan in (query.lastProgress or {"moves": []})["moves"] if plan["state"] == "done"]
        return read(Path(folder)), (begun_ns, ended_ns), plans
