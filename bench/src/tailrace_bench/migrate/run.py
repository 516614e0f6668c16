"""``tailrace bench migrate``: 50 moves of tasks under load, against the same load without moves.

Five workers, one operator of five tasks whose work is a timed wait, at 70 % of what they can do; a source gives each of
60 keys a rising number, and a sink writes down what arrives when. From that comes what was lost, doubled or out of
order within a key, how long the keys of a task were held up by its move, and what the other keys felt of it. Windows
with and without moves take turns within one query, so that each is held against one of the same minute.
"""

from __future__ import annotations

import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace_bench.bench import Bench, Timed
from tailrace_bench.reporting.rows import limit_row, make_row, none_row
from tailrace_bench.tails.arms import WORKERS, hosts_of

from . import hot_key, relief
from .flow import KEYS, OPERATOR, SERVICE_S, faults, flow_of, keys_of, latencies_ms, p99_ms, read

if TYPE_CHECKING:
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row
    from tailrace_bench.tails.arms import ArmHosts

    from .flow import ByKey

_MOVED = ("stateless", "keyed")
CASES = (*_MOVED, relief.NAME, hot_key.NAME)
PAUSE_MS_MAX = 250.0
OTHERS_BAR = 2.0
_OPEN_S = 2.5
_WARM_S = 2.0
_DRAIN_S = 2.0
_PAPER = "restart, 10-20 s"
_NS_PER_S = 1_000_000_000
_MS_PER_NS = 1e-6
PAUSE_NOTE = (
    "pause_p99_ms: for each move and each key of the moved task, the longest latency of the key's tuples that were due "
    "from the beginning of the move to half a second after it; p99 over all moves and keys."
)
WORK_NOTE = (
    f"Work is a timed wait of {SERVICE_S * 1000:g} ms, so that five workers fit on few cores; others_p99_ms is of the "
    "keys that did not move, in windows with moves against windows without in the same query."
)
HOT_NOTE = (
    "[hot_key]: three in five tuples are of one key; others_p99_ms is of all other keys at the end of queries with the "
    "rebalancing loop, against queries without it, which fall ever further behind."
)
NOTES = [PAUSE_NOTE, WORK_NOTE, HOT_NOTE]


@dataclass(frozen=True)
class MigrateTimes:
    """How long a case runs: pairs of windows, without moves and with them."""

    pairs: int
    moves: int
    gap_s: float
    #: Pairs of queries of [hot_key].
    hot_pairs: int

    @property
    def window_s(self) -> float:
        """One window."""
        return self.moves / self.pairs * self.gap_s

    @property
    def case_s(self) -> float:
        """One case."""
        return _OPEN_S + _WARM_S + _DRAIN_S + 2 * self.pairs * self.window_s


QUICK = MigrateTimes(pairs=5, moves=50, gap_s=0.6, hot_pairs=2)
FULL = MigrateTimes(pairs=10, moves=50, gap_s=1.2, hot_pairs=5)


@dataclass
class MigrationTrace:
    """Everything that arrived in a case, and the moves that were made."""

    #: Per key: number, when it was due, when it came; in order of arrival.
    by_key: ByKey
    #: When each move began and ended, and the keys of the task that moved.
    moves: list[tuple[int, int, frozenset[int]]] = field(default_factory=list)
    #: Windows with and without moves: when they began and ended.
    moving: list[tuple[int, int]] = field(default_factory=list)
    still: list[tuple[int, int]] = field(default_factory=list)


def planned_s(times: MigrateTimes, only: str | None) -> float:
    """About how long it takes."""
    cases = CASES if only is None else (only,)
    besides = {
        relief.NAME: relief.planned_s(times.window_s),
        hot_key.NAME: hot_key.planned_s(times.window_s, times.hot_pairs),
    }
    return 10.0 + sum(besides.get(name, times.case_s) for name in cases)


def rows(times: MigrateTimes, pace: Pace, only: str | None = None, *, spark: bool = True) -> list[Row]:
    """All cases, or one."""
    found: list[Row] = []
    with hosts_of(pace, spark=spark) as hosts:
        for name in CASES if only is None else (only,):
            if name == relief.NAME:
                pace.step(f"{name}: a worker becomes slow", relief.planned_s(times.window_s))
                found += relief.rows(hosts, times.window_s)
                continue
            if name == hot_key.NAME:
                planned_s = hot_key.planned_s(times.window_s, times.hot_pairs)
                pace.step(f"{name}: a key with 60 % of the traffic", planned_s)
                found += hot_key.rows(hosts, times.window_s, times.hot_pairs)
                continue
            pace.step(f"{name}: {times.moves} moves", times.case_s)
            found += case_rows(name, _run(hosts, name, times))
    return found


def _run(hosts: ArmHosts, name: str, times: MigrateTimes) -> MigrationTrace:
    settings = Settings()
    found = MigrationTrace({})
    rng = random.Random(name)  # noqa: S311 - it chooses tasks, nothing secret
    with tempfile.TemporaryDirectory(prefix="tailrace-migrate-") as folder:
        query = Query(flow_of(name, folder, settings), hosts.host(settings), Policy(chaining="off"), settings).start()
        try:
            time.sleep(_WARM_S)
            for _ in range(times.pairs):
                found.still.append(_window(times.window_s))
                found.moving.append(_moving_window(query, times, rng, found))
            query.stop()
        except BaseException:
            query.stop(now=True)
            raise
        found.by_key = read(Path(folder))
    return found


def _window(seconds: float) -> tuple[int, int]:
    begun_ns = time.monotonic_ns()
    time.sleep(seconds)
    return begun_ns, time.monotonic_ns()


def _moving_window(query: Query, times: MigrateTimes, rng: random.Random, found: MigrationTrace) -> tuple[int, int]:
    begun_ns = time.monotonic_ns()
    for number in range(times.moves // times.pairs):
        task = rng.randrange(WORKERS)
        here = query.workers_of(OPERATOR)[task]
        worker = rng.choice([each for each in range(WORKERS) if each != here])
        before_ns = time.monotonic_ns()
        if query.move(OPERATOR, task, worker):
            found.moves.append((before_ns, time.monotonic_ns(), keys_of(task)))
        time.sleep(max(0.0, begun_ns / _NS_PER_S + (number + 1) * times.gap_s - time.monotonic()))
    return begun_ns, time.monotonic_ns()


# -- what it says --------------------------------------------------------------------------------------------------


def case_rows(name: str, found: MigrationTrace) -> list[Row]:
    """The rows of one case."""
    lost, doubled, reordered = faults(found.by_key)
    pauses = pauses_ms(found)
    others = [p99_ms(_others(found, window)) for window in found.moving]
    still = [p99_ms(latencies_ms(found.by_key, window, frozenset(range(KEYS)))) for window in found.still]
    return [
        make_row(name, "moves", "moves", [float(len(found.moves))], better="higher"),
        none_row(name, "lost", lost),
        none_row(name, "doubled", doubled),
        none_row(name, "reordered", reordered),
        limit_row(name, "pause_p99_ms", "ms", [p99_ms(pauses)], PAUSE_MS_MAX) | {"paper": _PAPER},
        make_row(name, "pause_p50_ms", "ms", [sorted(pauses)[len(pauses) // 2]], better="lower"),
        make_row(
            name, "others_p99_ms", "ms", others, better="lower", baseline="without_moves", base=still, bar=OTHERS_BAR
        ),
    ]


def pauses_ms(found: MigrationTrace) -> list[float]:
    """For each move and each key of its task, the longest latency of what was due while it lasted and soon after."""
    pauses = []
    for begun_ns, ended_ns, keys in found.moves:
        for key in keys:
            window = begun_ns, ended_ns + _NS_PER_S // 2
            latencies = latencies_ms(found.by_key, window, frozenset((key,)))
            if latencies:
                pauses.append(max(latencies))
    return pauses or [0.0]


def _others(found: MigrationTrace, window: tuple[int, int]) -> list[float]:
    """Latencies during the moves of a window, of the keys that did not move then."""
    return [
        latency
        for begun_ns, ended_ns, keys in found.moves
        if window[0] <= begun_ns < window[1]
        for latency in latencies_ms(found.by_key, (begun_ns, ended_ns + _NS_PER_S // 2), frozenset(range(KEYS)) - keys)
    ]


BENCH = Bench("migrate", Timed(QUICK, FULL, planned_s, rows, NOTES), CASES)
