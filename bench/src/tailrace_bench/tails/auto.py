"""``tailrace bench auto``: the coordinator's own choice against each technique held by hand, in one query per scenario.

The query begins with ``Policy.auto()`` and is left alone until the coordinator has made up its mind; then windows of
its choice and of every single technique follow one another, in changing order. ``best_single`` is the technique whose
windows together have the lowest p99, known only afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tailrace.config import Policy, Settings
from tailrace_bench.bench import Bench, Timed
from tailrace_bench.reporting.rows import make_row

from . import balance, timeout
from .arms import OPEN_S, WORKERS, TailCase, TailTimes, hosts_of, run_switched, tail_rows
from .flows import Service, chain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.testing.chaos import Knobs
    from tailrace.topology.graph import Topology
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

    from .arms import Steps, TailMeasurements

AUTO, BEST = "auto", "best_single"
_P99_MAX = 1.15
_SINGLES: dict[str, Steps] = {
    "none": {"routing": "even"},
    "balancing": {"routing": "shortest_delay"},
    "shared_queue": {"inbox": "shared"},
    "timeout": {"replay": "adaptive"},
}
_ARMS: dict[str, Steps] = {AUTO: {}} | _SINGLES
_BALANCE = ("a", "b", "c")
#: A quick run takes one scenario of each kind.
QUICK_CASES = ("exclamation", "micro", "b", "quiet")
CASES = ("exclamation", "pageload", "processing", "micro", *_BALANCE, "quiet")
_MICRO_TASKS = 4 * WORKERS
#: Into and out of each task's queue per second: the paper's divided by ten.
_MICRO_IN, _MICRO_OUT = 35.0, 45.0
QUICK = TailTimes(repeats=1, warm_s=14.0, window_s=2.2, windows=3)
#: A window holds a few stalls even where they are rare, and begins when the arm before has left nothing in the queues.
FULL = TailTimes(repeats=1, warm_s=25.0, window_s=10.0, windows=5, settle_s=3.0)
#: How much longer than the others a case's windows are: at a use of 0.9 queues come and go in seconds.
_LENGTH = {"a": 2.0}
NOTES = [
    "auto and the single techniques are windows of one query that is switched between them.",
    "Scenarios are those of bench balance, sharedqueue and timeout, with their rates; quiet has no stalls at all.",
    f"A quick run takes {', '.join(QUICK_CASES)}.",
]
_SETTINGS = Settings(progress_s=0.5, haste=4.0)


def _cases(times: TailTimes, only: str | None) -> tuple[str, ...]:
    return (only,) if only else QUICK_CASES if times is QUICK else CASES


def _times(times: TailTimes, name: str) -> TailTimes:
    return replace(times, window_s=times.window_s * _LENGTH.get(name, 1.0))


def _case_s(times: TailTimes) -> float:
    return OPEN_S + times.warm_s + len(_ARMS) * times.windows * times.turn_s


def planned_s(times: TailTimes, only: str | None) -> float:
    """About how long it takes."""
    return 10.0 + sum(_case_s(_times(times, name)) for name in _cases(times, only))


def _micro(knobs: Knobs, seed: int) -> Topology:
    """Twenty tasks, four in a worker, whose queues are used 0.78."""
    service = partial(Service, knobs, 1 / _MICRO_OUT)
    return chain(("bolt",), _MICRO_IN * _MICRO_TASKS / WORKERS, service, seed=seed, tasks=_MICRO_TASKS)


def _quiet(knobs: Knobs, seed: int) -> Topology:
    """Three operators with next to nothing to do."""
    return chain(("bolt1", "bolt2", "bolt3"), 40.0, partial(Service, knobs, 0.002), seed=seed)


def _leave_alone(knobs: Knobs, seed: int) -> None:
    del knobs, seed


def scenario(name: str) -> TailCase:
    """What is drawn and done to the workers in a case."""
    own = {"micro": _micro, "quiet": _quiet}
    if name in own:
        return TailCase(name, own[name], _leave_alone)
    return balance.scenario(name) if name in _BALANCE else timeout.scenario(name)


def rows(times: TailTimes, pace: Pace, only: str | None = None, *, spark: bool = True) -> list[Row]:
    """All cases, or one."""
    found: list[Row] = []
    with hosts_of(pace, spark=spark) as hosts:
        for name in _cases(times, only):
            measured = run_switched(hosts, scenario(name), Policy.auto(), _ARMS, _SETTINGS, _times(times, name), pace)
            best = min(_SINGLES, key=lambda single: measured[single].pooled.percentile(0.99))
            found += tail_rows(name, measured[AUTO], measured[best], BEST, {"p99_ms": _P99_MAX})
            found += _told(name, measured, best)
    return found


def _told(case: str, measured: Mapping[str, TailMeasurements], best: str) -> list[Row]:
    """What was chosen, what would have been best, how often it was changed, and the tails of all."""
    chosen = measured[AUTO].progress.get("auto", {})
    label = f"{case},{chosen.get('technique', 'none')} (best: {best})"
    found = [make_row(label, "switches", "times", [float(chosen.get("switches", 0))], better="lower")]
    for single in _SINGLES:
        p99_ms = measured[single].pooled.percentile(0.99) * 1e-6
        found.append(make_row(f"{case},{single}", "p99_ms", "ms", [p99_ms], better="lower"))
    return found


BENCH = Bench("auto", Timed(QUICK, FULL, planned_s, rows, NOTES), CASES)
