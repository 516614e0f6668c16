"""The word count on four workers of one node, its tuples going by the ring, by Unix sockets and by TCP."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tailrace.testing.processes import ProcessHost
from tailrace_bench.arms.contest import Contest
from tailrace_bench.arms.engine import SETTINGS, EngineArm
from tailrace_bench.measurement import plan as times
from tailrace_bench.measurement import rounds
from tailrace_bench.reporting.rows import make_row

from .cases import RING, TCP, UDS, WORDCOUNT

if TYPE_CHECKING:
    from tailrace.metrics.histogram import Histogram
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

    from .cases import RingTimes

WORKERS = 4
PER_S = 10_000
_ARMS = (RING, UDS, TCP)
#: Offers are short and many: reports come often, so that the next one need not wait long for the last one's latencies.
_PROGRESS_S = 0.2
_OFFER_EXTRA_S = 0.3
_MS_PER_NS = 1e-6
#: The ring is ahead of both: less latency, more sentences.
BAR = 1.0


def planned_s(plan: RingTimes) -> float:
    """About how long it takes."""
    window_s = plan.count_warm_s + plan.count_window_s + times.WINDOW_EXTRA_S
    offer_s = plan.count_offer_s + _OFFER_EXTRA_S
    start_s = times.OPEN_S + plan.count_window_repeats * window_s + plan.count_repeats * offer_s
    return plan.count_starts * len(_ARMS) * start_s


def rows(plan: RingTimes, pace: Pace) -> list[Row]:
    """Three queries take turns, first at a rate, then saturated; all of it with queries started again a few times."""
    values: dict[str, dict[str, list[float]]] = {
        metric: {arm: [] for arm in _ARMS} for metric in ("p50_ms", "p99_ms", "sentences_per_s")
    }
    for _ in range(plan.count_starts):
        offered, speeds = _measure(plan, pace)
        for name in _ARMS:
            values["p50_ms"][name] += [each.percentile(0.5) * _MS_PER_NS for each in offered[name]]
            values["p99_ms"][name] += [each.percentile(0.99) * _MS_PER_NS for each in offered[name]]
            values["sentences_per_s"][name] += speeds[name]
    return count_rows(values)


def _measure(plan: RingTimes, pace: Pace) -> tuple[dict[str, list[Histogram]], dict[str, list[float]]]:
    with Contest("wordcount", lambda text: pace.step(text, 0)) as contest:
        pace.step(f"Starting three word counts on {WORKERS} workers each", len(_ARMS) * times.OPEN_S)
        arms = {name: _open(contest, name) for name in _ARMS}
        for arm in arms.values():
            arm.saturate(plan.count_warm_s, plan.count_warm_s)

        def offer(name: str) -> Histogram:
            pace.step(f"Word count at {PER_S:,}/s over {name}", plan.count_offer_s + _OFFER_EXTRA_S)
            return arms[name].offer(PER_S, plan.count_offer_s)

        def saturate(name: str) -> float:
            pace.step(f"Word count saturated over {name}", plan.count_warm_s + plan.count_window_s)
            return arms[name].saturate(plan.count_warm_s, plan.count_window_s).per_s

        offered = rounds.take(_ARMS, plan.count_repeats, offer, pace, spare=plan.count_spare)
        speeds = rounds.take(_ARMS, plan.count_window_repeats, saturate, pace, spare=plan.count_spare)
        contest.finish()
    return offered, speeds


def _open(contest: Contest, transport: str) -> EngineArm:
    settings = dataclasses.replace(SETTINGS, transport=transport, progress_s=_PROGRESS_S)
    arm = EngineArm(transport, "wordcount", contest.folder, lambda: ProcessHost(WORKERS), settings=settings)
    contest.open(arm)
    return arm


def count_rows(values: dict[str, dict[str, list[float]]]) -> list[Row]:
    """The ring against the other two."""
    found = []
    for metric, each in values.items():
        saturated = metric == "sentences_per_s"
        found += [
            make_row(
                WORDCOUNT, metric, "sentences/s" if saturated else "ms", each[RING],
                better="higher" if saturated else "lower", baseline=arm, base=each[arm], bar=BAR,
            )
            for arm in (UDS, TCP)
        ]  # fmt: skip
    return found
