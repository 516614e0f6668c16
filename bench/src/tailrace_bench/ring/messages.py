"""The pairs beside each other: one-way latency at given rates, and messages per second as fast as it goes.

All pairs are up at once and take turns, so that a ratio is made of two windows that lie a second apart.
"""

from __future__ import annotations

import contextlib
import importlib.util
from typing import TYPE_CHECKING

from tailrace_bench.errors import PeerMissingError
from tailrace_bench.measurement import rounds
from tailrace_bench.reporting.rows import make_row, missing_row

from .cases import ARMS, FLOOD_BAR, FLOODS, LATENCY, NETTY, P50_BARS, PAPER, RING, SIZES, ZMQ
from .pair import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

    from .cases import MessageCase, RingTimes

_US_PER_NS = 1e-3
#: Starting an end, and what a window takes besides its length: its lead and the answers.
OPEN_S, EXTRA_S = 0.7, 0.04
_WARM_SIZES = (100, 40 << 10)
_SHARES = {"p50_us": 0.5, "p99_us": 0.99}

Missing = dict[str, str]


def planned_s(plan: RingTimes, only: str | None) -> float:
    """About how long it takes."""
    offers_s = sum(_offers_s(case, plan) for case in LATENCY if only in {None, case.name})
    floods_s = sum(plan.flood_repeats * (plan.flood_s + EXTRA_S) for size in FLOODS if only in {None, size})
    if not offers_s + floods_s:
        return 0.0
    return len(ARMS) * (OPEN_S + 2 * plan.warm_s + offers_s + floods_s)


def _offers_s(case: MessageCase, plan: RingTimes) -> float:
    seconds, repeats = plan.offers[case.per_s]
    return repeats * (seconds + EXTRA_S)


@contextlib.contextmanager
def opened(folder: Path, plan: RingTimes) -> Iterator[tuple[dict[str, Pair], Missing]]:
    """Start and warm every pair; those that cannot be had are told with the reason."""
    pairs: dict[str, Pair] = {}
    missing: Missing = {}
    with contextlib.ExitStack() as stack:
        for kind in ARMS:
            pair, why_not = _open(kind, folder)
            if pair is None:
                missing[kind] = why_not
            else:
                pairs[kind] = pair
                stack.callback(pair.close)
        for pair in pairs.values():
            for size in _WARM_SIZES:
                pair.flood(size, plan.warm_s)
        yield pairs, missing


def _open(kind: str, folder: Path) -> tuple[Pair | None, str]:
    if kind == ZMQ and importlib.util.find_spec("zmq") is None:
        return None, "pyzmq is not installed"
    try:
        return Pair(kind, folder), ""
    except PeerMissingError as error:
        return None, error.message


def rows(plan: RingTimes, pace: Pace, folder: Path, only: str | None) -> list[Row]:
    """Measure all cases, or the one asked for."""
    latency = [case for case in LATENCY if only in {None, case.name}]
    floods = [size for size in FLOODS if only in {None, size}]
    if not latency and not floods:
        return []
    pace.step("Starting and warming the pairs", len(ARMS) * (OPEN_S + 2 * plan.warm_s))
    with opened(folder, plan) as (pairs, missing):
        # The fastest rates first: what a virtual machine compiles while it runs is compiled by the time of the slowest.
        measured = {case: _latency(case, pairs, missing, plan, pace) for case in reversed(latency)}
        found = [row for case in latency for row in measured[case]]
        found += [row for size in floods for row in _flood(size, pairs, missing, plan, pace)]
    return found


def percentile(values: Sequence[int], share: float) -> float:
    """The value that this share of all do not exceed."""
    return float(sorted(values)[min(len(values) - 1, int(share * len(values)))])


def _latency(case: MessageCase, pairs: dict[str, Pair], missing: Missing, plan: RingTimes, pace: Pace) -> list[Row]:
    seconds, repeats = plan.offers[case.per_s]
    pace.step(f"One-way latency, {case.name}", len(ARMS) * _offers_s(case, plan))

    def measure(arm: str) -> list[float]:
        late_ns = pairs[arm].latencies_ns(case.bytes, case.per_s, round(seconds * case.per_s))
        return [percentile(late_ns, share) * _US_PER_NS for share in _SHARES.values()]

    found = rounds.take(list(pairs), repeats, measure, pace, spare=plan.spare)
    values = {metric: {arm: [each[at] for each in found[arm]] for arm in pairs} for at, metric in enumerate(_SHARES)}
    return latency_rows(case, values, missing)


def latency_rows(case: MessageCase, values: dict[str, dict[str, list[float]]], missing: Missing) -> list[Row]:
    """The ring against each other arm; only the median has bars."""
    found = []
    for metric in _SHARES:
        for arm in ARMS[1:]:
            if arm in missing:
                found.append(missing_row(case.name, metric, "us", missing[arm], "lower"))
                continue
            bar = P50_BARS.get(arm) if metric == "p50_us" else None
            paper = PAPER if arm == NETTY and metric == "p50_us" else None
            ours, theirs = values[metric][RING], values[metric][arm]
            found.append(
                make_row(case.name, metric, "us", ours, better="lower", baseline=arm, base=theirs, bar=bar, paper=paper)
            )
    return found


def _flood(size: str, pairs: dict[str, Pair], missing: Missing, plan: RingTimes, pace: Pace) -> list[Row]:
    pace.step(f"As fast as it goes, {size}", len(ARMS) * plan.flood_repeats * (plan.flood_s + EXTRA_S))

    def measure(arm: str) -> float:
        return pairs[arm].flood(SIZES[size], plan.flood_s).per_s

    speeds = rounds.take(list(pairs), plan.flood_repeats, measure, pace, spare=plan.spare)
    return flood_rows(size, speeds, missing)


def flood_rows(size: str, speeds: dict[str, list[float]], missing: Missing) -> list[Row]:
    """The ring against each other arm."""
    metric, unit = "msgs_per_s", "messages/s"
    return [
        missing_row(size, metric, unit, missing[arm], "higher")
        if arm in missing
        else make_row(size, metric, unit, speeds[RING], better="higher", baseline=arm, base=speeds[arm], bar=FLOOD_BAR)
        for arm in ARMS[1:]
    ]
