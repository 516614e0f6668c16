"""``tailrace bench timeout``: workers that stall at random, at low load; no replay against adaptive replay.

Each arm is a query of its own: a timeout is learned from the last thousand roots, so switched from window to window it
would go by those of the other arm. Replay ``off`` would leave roots untracked and their latency unknown, so the
baseline tracks them and waits ten minutes before it sends one again. In case ``step`` service times grow tenfold after
the warm-up: the budget must hold. Cases ``blind_*`` send a share of all roots twice. Case ``counts`` holds a count
behind replays against a loop.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tailrace.config import Policy, Settings
from tailrace_bench.bench import Bench, Timed
from tailrace_bench.reporting.rows import limit_row

from .arms import WORKERS, TailCase, TailTimes, hosts_of, run_case, tail_rows
from .counts import count_rows, counts_s
from .flows import Service, chain, pageload, processing

if TYPE_CHECKING:
    from tailrace.testing.chaos import Knobs
    from tailrace.topology.graph import Topology
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

    from .arms import ArmHosts, TailMeasurements

_SHARES = {"blind_20": "blind:0.2", "blind_50": "blind:0.5", "blind_100": "blind:1.0"}
CASES = ("exclamation", "pageload", "processing", "step", *_SHARES, "counts")
OFF, ADAPTIVE = "off", "adaptive"
_ARMS = {OFF: Policy(replay="fixed:600s"), ADAPTIVE: Policy(replay="adaptive")}
_BARS = {"p99_ms": 0.82, "p999_ms": 0.87}
_EXTRA_MAX = 0.03
_PAPER: dict[str, dict[str, object]] = {
    "exclamation": {"p99_ms": 0.825, "p999_ms": 0.867},
    "pageload": {"p99_ms": "0.60-0.72", "p999_ms": "0.74-0.76"},
    "processing": {"p99_ms": "0.60-0.72", "p999_ms": "0.74-0.76"},
    "blind_20": {"p99_ms": 0.873, "p999_ms": 1.146},
    "blind_50": {"p99_ms": 0.757, "p999_ms": 1.406},
    "blind_100": {"p99_ms": 0.613, "p999_ms": 1.020},
}
#: Roots per second of one source task: half the paper's 240 where two cores can carry it, else a quarter.
_PER_SOURCE = {"pageload": 60.0, "processing": 60.0, "step": 60.0}
_USUAL_PER_SOURCE = 120.0
_MEAN_S = 0.001
#: A worker stalls the less often the more operators a root passes, so that in every case as many roots meet a stall,
#: about 3 %: with twice as many the budget of replays saves half of them, and p99.9 stays what it was.
_STALL_EVERY_S_PER_OPERATOR, _STALL_S = 5.0 / 3, (0.02, 0.1)
_OPERATORS = {"pageload": 6, "processing": 7}
_USUAL_OPERATORS = 3
_STEP = 10.0
#: A timeout takes 1,000 samples of each source task before it is one: the warm-up of that arm is that long.
_SAMPLES = 1000
_LEARN_S = 2.0
#: The warm-up of arms that have nothing to learn.
_PLAIN_WARM_S = 3.0
#: Windows that are enough where no bar is on a ratio.
_UNPAIRED = 2
#: Every second or two one of the workers stalls: a window of a few seconds holds a few stalls.
QUICK = TailTimes(repeats=1, warm_s=0.0, window_s=3.0, windows=5)
FULL = TailTimes(repeats=5, warm_s=5.0, window_s=15.0, windows=1)
NOTES = [
    (
        "Service times are timed waits of 1 ms on average; each worker stalls for 20 to 100 ms every 5 s on average, "
        "every 10 s in pageload and every 12 s in processing, whose roots pass more operators: about 3 % meet a stall."
    ),
    "Windows of the arms that are compared meet the same stalls, one in each second, or in two where stalls are rarer.",
    "120 roots/s per source task (60 in pageload, processing and step) instead of the paper's 240.",
]
#: A stall of one worker meets a few roots of each source task: more need not be saved up for it.
_SETTINGS = Settings(progress_s=0.25, replay_burst=8)


def _times(times: TailTimes, name: str) -> TailTimes:
    """Few windows are enough where there is nothing to pair."""
    unpaired = name in _SHARES or name == "step"
    windows = min(times.windows, _UNPAIRED) if unpaired else times.windows
    return replace(times, warm_s=times.warm_s + _PLAIN_WARM_S, windows=windows)


def _warm_s(times: TailTimes, name: str) -> dict[str, float]:
    """Warm up until timeouts are learned, where there are any."""
    return {ADAPTIVE: times.warm_s + _SAMPLES / _rate(name) + _LEARN_S}


def _rate(name: str) -> float:
    return _PER_SOURCE.get(name, _USUAL_PER_SOURCE)


def _case_s(times: TailTimes, name: str) -> float:
    if name == "counts":
        return counts_s()
    own = _times(times, name)
    learning = replace(own, warm_s=_warm_s(times, name)[ADAPTIVE])
    return own.repeats * (own.arm_s + (0.0 if name in _SHARES else learning.arm_s))


def planned_s(times: TailTimes, only: str | None) -> float:
    """About how long it takes."""
    return 10.0 + sum(_case_s(times, name) for name in _cases(only))


def _cases(only: str | None) -> tuple[str, ...]:
    """Blind replication is told against the arm without replays of the exclamation."""
    if only is None:
        return CASES
    return ("exclamation", only) if only in _SHARES else (only,)


def _flow(name: str, knobs: Knobs, seed: int) -> Topology:
    service = partial(Service, knobs, _MEAN_S)
    if name == "pageload":
        return pageload(_rate(name), service, seed=seed)
    if name == "processing":
        return processing(_rate(name), service, seed=seed)
    return chain(("exclaim1", "exclaim2", "exclaim3"), _rate(name), service, seed=seed)


def _stall(name: str, knobs: Knobs, seed: int) -> None:
    every_s = _STALL_EVERY_S_PER_OPERATOR * _OPERATORS.get(name, _USUAL_OPERATORS)
    knobs.pause_at_random(range(WORKERS), every_s=every_s, lasting_s=_STALL_S, seed=seed)


def _step_up(knobs: Knobs) -> None:
    for worker in range(WORKERS):
        knobs.slow(worker, _STEP)


def scenario(name: str) -> TailCase:
    """One of the cases; ``bench auto`` runs them too."""
    return TailCase(name, partial(_flow, name), partial(_stall, name), _step_up if name == "step" else None)


def rows(times: TailTimes, pace: Pace, only: str | None = None, *, spark: bool = True) -> list[Row]:
    """All cases, or one."""
    found: list[Row] = []
    off: TailMeasurements | None = None
    with hosts_of(pace, spark=spark) as hosts:
        for name in _cases(only):
            if name == "counts":
                found += count_rows(hosts, pace)
            elif name in _SHARES and off is not None:
                found += _blind(hosts, name, off, times, pace)
            else:
                measured = run_case(
                    hosts, scenario(name), _ARMS, _SETTINGS, _times(times, name), pace, _warm_s(times, name)
                )
                off = measured[OFF] if name == "exclamation" else off
                bars = {} if name == "step" else _BARS
                found += tail_rows(name, measured[ADAPTIVE], measured[OFF], OFF, bars, _PAPER.get(name))
                found.append(limit_row(name, "extra_load", "replays per root", measured[ADAPTIVE].extra, _EXTRA_MAX))
    return found


def _blind(hosts: ArmHosts, name: str, off: TailMeasurements, times: TailTimes, pace: Pace) -> list[Row]:
    measured = run_case(
        hosts, scenario(name), {name: Policy(replay=_SHARES[name])}, _SETTINGS, _times(times, name), pace
    )[name]
    rows = tail_rows(name, measured, off, OFF, {}, _PAPER[name])
    extra = limit_row(name, "extra_load", "replays per root", measured.extra, float(_SHARES[name].partition(":")[2]))
    return [*rows, extra | {"bar": None, "ok": None}]


BENCH = Bench("timeout", Timed(QUICK, FULL, planned_s, rows, NOTES), CASES)
