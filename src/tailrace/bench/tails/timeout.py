"""``tailrace bench timeout``: workers that stall at random, at low load; no replay against adaptive replay.

Replay ``off`` would leave roots untracked and their latency unknown, so the baseline tracks them and waits ten minutes
before it sends one again. In case ``step`` service times grow tenfold in the midst of the run: the budget must hold.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tailrace.bench.rows import limit_row
from tailrace.config import Policy, Settings

from .arms import WORKERS, Case, Times, run_case, stage_of, tail_rows
from .flows import Service, chain, pageload, processing

if TYPE_CHECKING:
    from tailrace.bench.pace import Pace
    from tailrace.bench.rows import Row
    from tailrace.testing.chaos import Knobs
    from tailrace.topology.graph import Topology

CASES = ("exclamation", "pageload", "processing", "step")
OFF, ADAPTIVE = "off", "adaptive"
_BARS = {"p99_ms": 0.82, "p999_ms": 0.87}
_EXTRA_MAX = 0.03
_PAPER = {"p99_ms": "0.60-0.72"}
#: Roots per second of one source task: the paper's 240 where two cores can carry it.
_PER_SOURCE = {"exclamation": 120.0, "pageload": 60.0, "processing": 60.0, "step": 60.0}
_MEAN_S = 0.001
_STALL_EVERY_S, _STALL_S = 5.0, (0.02, 0.1)
_STEP = 10.0
#: A timeout takes 1,000 samples of each source task before it is one: the warm-up is that long at least.
QUICK = Times(repeats=1, warm_s=18.0, window_s=4.0, windows=3)
FULL = Times(repeats=5, warm_s=20.0, window_s=15.0, windows=1)
NOTES = ["Service times are timed waits of 1 ms on average; each worker stalls for 20 to 100 ms every 5 s."]
_SETTINGS = Settings(progress_s=0.5)


def planned_s(times: Times, only: str | None) -> float:
    """About how long it takes."""
    return 10.0 + (1 if only else len(CASES)) * times.repeats * 2 * times.arm_s


def _flow(name: str, knobs: Knobs, seed: int) -> Topology:
    service = partial(Service, knobs, _MEAN_S)
    rate = _PER_SOURCE[name]
    if name == "pageload":
        return pageload(rate, service, seed=seed)
    if name == "processing":
        return processing(rate, service, seed=seed)
    return chain(("exclaim1", "exclaim2", "exclaim3"), rate, service, seed=seed)


def _stall(knobs: Knobs, seed: int) -> None:
    knobs.pause_at_random(range(WORKERS), every_s=_STALL_EVERY_S, lasting_s=_STALL_S, seed=seed)


def _step_up(knobs: Knobs) -> None:
    for worker in range(WORKERS):
        knobs.slow(worker, _STEP)


def rows(times: Times, pace: Pace, only: str | None = None, *, spark: bool = True) -> list[Row]:
    """All cases, or one."""
    arms = {OFF: Policy(replay="fixed:600s"), ADAPTIVE: Policy(replay="adaptive")}
    found: list[Row] = []
    with stage_of(pace, spark=spark) as stage:
        for name in CASES if only is None else (only,):
            case = Case(name, partial(_flow, name), _stall, _step_up if name == "step" else None)
            measured = run_case(stage, case, arms, _SETTINGS, times, pace)
            bars = {} if name == "step" else _BARS
            found += tail_rows(name, measured[ADAPTIVE], measured[OFF], OFF, bars, _PAPER)
            found.append(limit_row(name, "extra_load", "replays per root", measured[ADAPTIVE].extra, _EXTRA_MAX))
    return found
