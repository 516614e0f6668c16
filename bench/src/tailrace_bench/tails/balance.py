"""``tailrace bench balance``: nodes of unequal speed; even, latency, load_aware and shortest_delay side by side.

Cases a to c are Du & Gupta's chain of three bolts, pageload and processing Yahoo's layouts; at an even split the
slowest task's queue is used 0.9.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tailrace.config import Policy, Settings
from tailrace_bench.bench import Bench, Timed
from tailrace_bench.reporting.rows import make_row

from .arms import TailCase, TailTimes, hosts_of, run_case, tail_rows
from .flows import Service, chain, pageload, processing

if TYPE_CHECKING:
    from tailrace.testing.chaos import Knobs
    from tailrace.topology.graph import Topology
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

    from .arms import TailMeasurements

CASES = ("a", "b", "c", "pageload", "processing")
OURS, EVEN, LOAD_AWARE = "shortest_delay", "even", "load_aware"
#: Bars on our p99 and p99.9 against even; the paper's own gains are its p99 against no balancing.
_P99 = {"a": 0.79, "b": 0.39, "c": 0.49, "pageload": 0.50, "processing": 0.50}
_P999 = {"a": 0.75, "b": 0.75, "c": 0.50}
_LOAD_AWARE_MAX = 1.05
_PAPER = {"pageload": "p99 0.43-0.50", "processing": "p99 0.43-0.50"}
_USE = 0.9
#: Service times: the paper's order of magnitude times four or more, rates divided by as much.
_MEAN_S = {"a": 0.004, "b": 0.004, "c": 0.004, "pageload": 0.008, "processing": 0.008}
#: How many times slower each worker is.
_SLOWNESS = {
    "a": (1.5, 1.5, 1.5, 1.5, 1.0),
    "b": (2.0, 2.0, 1.0, 1.0, 1.0),
    "c": (2.0, 1.0, 1.0, 1.0, 1.0),
    "pageload": (2.0, 1.0, 1.0, 1.0, 1.0),
    "processing": (2.0, 1.0, 1.0, 1.0, 1.0),
}
#: The case whose slow worker recovers in the end.
_RECOVERS = "c"
QUICK = TailTimes(repeats=1, warm_s=3.0, window_s=1.5, windows=5)
FULL = TailTimes(repeats=5, warm_s=8.0, window_s=10.0, windows=1)
NOTES = [
    "Service times are timed waits, rates are the paper's divided by 4 to 10 and service times as much longer.",
    "Periods of latency and shortest_delay are divided by 10 and 4: a step of 1 % per half second.",
]
#: A report comes four times per second; the paper's 5 s become 0.5 s, the estimator's second a quarter.
_SETTINGS = Settings(progress_s=0.25, haste=10.0)


def planned_s(times: TailTimes, only: str | None) -> float:
    """About how long it takes."""
    return 10.0 + (1 if only else len(CASES)) * times.repeats * 4 * times.arm_s


def _flow(name: str, knobs: Knobs, seed: int) -> Topology:
    mean_s = _MEAN_S[name]
    service = partial(Service, knobs, mean_s)
    tasks = 3 if name == "a" else 5
    slowest = max(_SLOWNESS[name])
    # What an even split gives each task of the first operator, at the use of the slowest.
    per_source = _USE / slowest / mean_s * tasks / 5
    if name == "pageload":
        return pageload(per_source, service, seed=seed)
    if name == "processing":
        return processing(per_source, service, seed=seed)
    return chain(("bolt1", "bolt2", "bolt3"), per_source, service, seed=seed, tasks=tasks)


def _slow_down(name: str, knobs: Knobs, seed: int) -> None:
    del seed
    for worker, times in enumerate(_SLOWNESS[name]):
        knobs.slow(worker, times)


def _recover(name: str, knobs: Knobs) -> None:
    for worker, _ in enumerate(_SLOWNESS[name]):
        knobs.slow(worker, 1.0)


def scenario(name: str) -> TailCase:
    """One of the cases; ``bench auto`` runs them too."""
    recover = partial(_recover, name) if name == _RECOVERS else None
    return TailCase(name, partial(_flow, name), partial(_slow_down, name), afterwards=recover)


def rows(times: TailTimes, pace: Pace, only: str | None = None, *, spark: bool = True) -> list[Row]:
    """All cases, or one."""
    arms = {name: Policy(routing=name, replay="fixed:600s") for name in (EVEN, "latency", LOAD_AWARE, OURS)}
    found: list[Row] = []
    with hosts_of(pace, spark=spark) as hosts:
        for name in CASES if only is None else (only,):
            measured = run_case(hosts, scenario(name), arms, _SETTINGS, times, pace)
            bars = {"p99_ms": _P99[name]} | ({"p999_ms": _P999[name]} if name in _P999 else {})
            papers = {"p99_ms": _PAPER.get(name)}
            found += tail_rows(name, measured[OURS], measured[EVEN], EVEN, bars, papers)
            found += tail_rows(name, measured[OURS], measured[LOAD_AWARE], LOAD_AWARE, {"p99_ms": _LOAD_AWARE_MAX})
            for other in ("latency", LOAD_AWARE):
                found += tail_rows(f"{name},{other}", measured[other], measured[EVEN], EVEN, {})
            found += _weights(name, measured[OURS])
    return found


def _weights(case: str, ours: TailMeasurements) -> list[Row]:
    """The least weight of the first balanced edge: that the slow worker was found, settled on, and let off again."""
    least = [min(each) for each in ours.weights if each]
    if not least:
        return []
    during, after = least[: -ours.recovered or None], least[len(least) - ours.recovered :]
    found = [
        make_row(case, "least_weight", "share", during, better="lower"),
        make_row(case, "weight_swing", "share", [max(during) - min(during)], better="lower"),
    ]
    if after:
        even = 1 / len(ours.weights[-1])
        found.append(make_row(case, "recovered_weight", "of an even share", [after[-1] / even], better="higher"))
    return found


BENCH = Bench("balance", Timed(QUICK, FULL, planned_s, rows, NOTES), CASES)
