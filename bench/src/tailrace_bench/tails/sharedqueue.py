"""``tailrace bench sharedqueue``: one queue for the four tasks of an operator in a worker against one for each.

Service is exponential as a timed wait, arrivals are Poisson, shuffle deals in turn; queues are used as much as in the
paper, at lower rates. Beside the paper's setting: tasks drawn at random, fixed service, and one queue for the tasks of
all workers. Each case has a row of what Erlang-C says of the ratio, M/M/4 to M/M/1, and of our own figures.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tailrace.config import Policy, Settings
from tailrace_bench.bench import Bench, Timed
from tailrace_bench.reporting.rows import P999_SAMPLES_MIN, make_row

from .arms import WORKERS, TailCase, TailTimes, hosts_of, run_case, tail_rows
from .erlang import percentiles_ms
from .flows import Service, chain, pageload, processing

if TYPE_CHECKING:
    from tailrace.testing.chaos import Knobs
    from tailrace.topology.graph import Topology
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

    from .arms import TailMeasurements

CASES = ("micro", "micro_random", "micro_fixed", "pageload", "processing")
PER_TASK, SHARED, ACROSS = "per_task", "shared", "across_workers"
_MICRO_BARS = {"p90_ms": 0.65, "p99_ms": 0.75, "p999_ms": 0.64}
_YAHOO_BARS = {"p90_ms": 0.84, "p99_ms": 0.64, "p999_ms": 0.80}
_BARS = {"micro": _MICRO_BARS, "pageload": _YAHOO_BARS, "processing": _YAHOO_BARS}
_PAPER = {"p99_ms": "0.58-0.64"}
#: Tasks per operator, four in each worker; into and out of each task's queue per second.
_PER_WORKER = 4
_TASKS = _PER_WORKER * WORKERS
_MICRO_IN, _MICRO_OUT = 70.0, 90.0
_YAHOO_IN, _YAHOO_OUT = 33.0, 41.5
_SHARES = {0.9: "p90_ms", 0.99: "p99_ms", 0.999: "p999_ms"}
#: How much longer than in the first case windows are: p99.9 takes many roots; what has no bar can do with few.
_LENGTH = {"micro_random": 0.5, "micro_fixed": 0.5, "pageload": 2.1, "processing": 2.1}
QUICK = TailTimes(repeats=1, warm_s=2.5, window_s=3.0, windows=5)
FULL = TailTimes(repeats=5, warm_s=8.0, window_s=20.0, windows=1)
NOTES = [
    "Service times are timed waits; rates are the paper's divided by 5 (micro) and 20, service times as much longer.",
    f"p99.9 is given from {P999_SAMPLES_MIN:,} roots per arm on.",
]
_SETTINGS = Settings(progress_s=0.5, share_across="worker")


def _arms(name: str) -> dict[str, Policy]:
    routing = "random" if name == "micro_random" else "even"
    arms = {
        PER_TASK: Policy(routing=routing, replay="fixed:600s"),
        SHARED: Policy(inbox="shared", routing=routing, replay="fixed:600s"),
    }
    return arms | ({ACROSS: arms[SHARED]} if name == "micro" else {})


def _times(name: str, times: TailTimes) -> TailTimes:
    return replace(times, window_s=times.window_s * _LENGTH.get(name, 1.0))


def planned_s(times: TailTimes, only: str | None) -> float:
    """About how long it takes."""
    chosen = CASES if only is None else (only,)
    return 10.0 + sum(len(_arms(name)) * times.repeats * _times(name, times).arm_s for name in chosen)


def _rates(name: str) -> tuple[float, float]:
    return (_MICRO_IN, _MICRO_OUT) if name.startswith("micro") else (_YAHOO_IN, _YAHOO_OUT)


def _flow(name: str, knobs: Knobs, seed: int) -> Topology:
    per_task, out = _rates(name)
    service = partial(Service, knobs, 1 / out, fixed=name == "micro_fixed")
    per_source = per_task * _TASKS / WORKERS
    if name.startswith("micro"):
        return chain(("bolt",), per_source, service, seed=seed, tasks=_TASKS)
    layout = pageload if name == "pageload" else processing
    return layout(per_source, service, seed=seed, tasks=_TASKS)


def _leave_alone(knobs: Knobs, seed: int) -> None:
    del knobs, seed


def rows(times: TailTimes, pace: Pace, only: str | None = None, *, spark: bool = True) -> list[Row]:
    """All cases, or one."""
    found: list[Row] = []
    settings = {PER_TASK: _SETTINGS, SHARED: _SETTINGS, ACROSS: Settings(progress_s=0.5, share_across="node")}
    with hosts_of(pace, spark=spark) as hosts:
        for name in CASES if only is None else (only,):
            case = TailCase(name, partial(_flow, name), _leave_alone)
            measured = run_case(hosts, case, _arms(name), settings, _times(name, times), pace)
            found += tail_rows(name, measured[SHARED], measured[PER_TASK], PER_TASK, _BARS.get(name, {}), _PAPER)
            if ACROSS in measured:
                found += tail_rows(f"{name},{ACROSS}", measured[ACROSS], measured[PER_TASK], PER_TASK, {})
            if name != "micro_fixed":  # Erlang's service times are exponential
                found += _theory(name, measured[SHARED])
    return found


def _theory(name: str, ours: TailMeasurements) -> list[Row]:
    """What Erlang-C says: of the ratio where tuples are dealt at random, and of the shared queue's own percentiles."""
    alone, together = (percentiles_ms(name, servers, *_rates(name)) for servers in (1, _PER_WORKER))
    found = []
    for share, metric in _SHARES.items():
        exact = [together[share]]
        found.append(
            make_row(f"{name},theory", metric, "ms", exact, better="lower", baseline="m/m/1", base=[alone[share]])
        )
        if metric != "p999_ms" or len(ours.pooled) >= P999_SAMPLES_MIN:
            value = [ours.pooled.percentile(share) * 1e-6]
            found.append(make_row(name, metric, "ms", value, better="lower", baseline="erlang_c", base=exact))
    return found


BENCH = Bench("sharedqueue", Timed(QUICK, FULL, planned_s, rows, NOTES), CASES)
