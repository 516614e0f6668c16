"""``tailrace bench sharedqueue``: one queue for the four tasks of an operator in a worker against one for each.

Service is exponential as a timed wait, arrivals are Poisson, shuffle deals in turn; queues are used as much as in the
paper, at rates divided by 10 (micro) and 60 (pageload, processing).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tailrace.config import Policy, Settings

from .arms import WORKERS, Case, Times, run_case, stage_of, tail_rows
from .flows import Service, chain, pageload, processing

if TYPE_CHECKING:
    from tailrace.bench.pace import Pace
    from tailrace.bench.rows import Row
    from tailrace.testing.chaos import Knobs
    from tailrace.topology.graph import Topology

CASES = ("micro", "micro_fixed", "pageload", "processing")
PER_TASK, SHARED = "per_task", "shared"
_MICRO_BARS = {"p90_ms": 0.65, "p99_ms": 0.75, "p999_ms": 0.64}
_YAHOO_BARS = {"p90_ms": 0.84, "p99_ms": 0.64, "p999_ms": 0.80}
_BARS = {"micro": _MICRO_BARS, "pageload": _YAHOO_BARS, "processing": _YAHOO_BARS}
_PAPER = {"p99_ms": "0.58-0.64"}
#: Tasks per operator, four in each worker; into and out of each task's queue per second.
_TASKS = 4 * WORKERS
_MICRO_IN, _MICRO_OUT = 35.0, 45.0
_YAHOO_IN, _YAHOO_OUT = 11.0, 13.83
QUICK = Times(repeats=1, warm_s=4.0, window_s=8.0, windows=3)
FULL = Times(repeats=5, warm_s=8.0, window_s=20.0, windows=1)
NOTES = [
    "Service times are timed waits; rates are the paper's divided by 10 (micro) and 60, service times as much longer."
]
_SETTINGS = Settings(progress_s=0.5)


def planned_s(times: Times, only: str | None) -> float:
    """About how long it takes."""
    return 10.0 + (1 if only else len(CASES)) * times.repeats * 2 * times.arm_s


def _flow(name: str, knobs: Knobs, seed: int) -> Topology:
    micro = name.startswith("micro")
    per_task, out = (_MICRO_IN, _MICRO_OUT) if micro else (_YAHOO_IN, _YAHOO_OUT)
    service = partial(Service, knobs, 1 / out, fixed=name == "micro_fixed")
    per_source = per_task * _TASKS / WORKERS
    if micro:
        return chain(("bolt",), per_source, service, seed=seed, tasks=_TASKS)
    layout = pageload if name == "pageload" else processing
    return layout(per_source, service, seed=seed, tasks=_TASKS)


def _leave_alone(knobs: Knobs, seed: int) -> None:
    del knobs, seed


def rows(times: Times, pace: Pace, only: str | None = None, *, spark: bool = True) -> list[Row]:
    """All cases, or one."""
    arms = {name: Policy(inbox=name, replay="fixed:600s") for name in (PER_TASK, SHARED)}
    found: list[Row] = []
    with stage_of(pace, spark=spark) as stage:
        for name in CASES if only is None else (only,):
            case = Case(name, partial(_flow, name), _leave_alone)
            measured = run_case(stage, case, arms, _SETTINGS, times, pace)
            found += tail_rows(name, measured[SHARED], measured[PER_TASK], PER_TASK, _BARS.get(name, {}), _PAPER)
    return found
