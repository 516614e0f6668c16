"""``wordcount`` and ``exclaim``: Tailrace beside the bare loop and Bytewax, saturated and at given rates.

All arms are up at once and take turns, so that a repeat of one lies seconds from the repeat of another that it is
paired with.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from tailrace_bench.arms.contest import BARE, PROCESSES, TRACKED, UNTRACKED, Contest
from tailrace_bench.arms.engine import SETTINGS, TASKS, WORKERS, EngineArm
from tailrace_bench.measurement import plan as times
from tailrace_bench.measurement import rounds
from tailrace_bench.measurement.inside import crossing_share
from tailrace_bench.measurement.sustain import sustainable_rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.metrics.histogram import Histogram
    from tailrace_bench.arms.base import Arm, Window
    from tailrace_bench.arms.bytewax import BytewaxArm
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.measurement.plan import ComparisonTimes

CROSSING_MIN = 0.5
PEER, PEER_TUNED = "bytewax", "bytewax,tuned"
#: Until the last ack is back at the source.
COMPLETE = "complete"
#: How Tailrace's workers wait: the default, and what its best is searched in besides.
DEFAULT_WAITING, WAITINGS = "futex", ("futex", "spin_then_futex")
#: Who spins does so for longer than lies between two records of a source at the lowest rate, which is 4 ms.
SPIN_US = 5000
_MS_PER_NS = 1e-6


@dataclass
class Found:
    """What a comparison measured; lists have one entry per repeat."""

    windows: dict[str, list[Window]] = field(default_factory=lambda: defaultdict(list))
    latencies: dict[tuple[int, str], list[Histogram]] = field(default_factory=lambda: defaultdict(list))
    cores_used: dict[tuple[int, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    sustained: dict[str, float] = field(default_factory=dict)
    crossing: float | None = None
    peer_missing: str = ""
    peer_version: str = ""
    notes: list[str] = field(default_factory=list)


class Offered(NamedTuple):
    """What one arm did with the records it was offered."""

    latencies: Histogram
    cores_used: float
    complete: Histogram | None


def wanted(only: str | None, case: str) -> bool:
    """Whether a case is to be run."""
    return only is None or only == case


def planned_s(plan: ComparisonTimes, only: str | None) -> float:
    """About how long a comparison takes."""
    window_s = plan.warm_s + plan.window_s + times.WINDOW_EXTRA_S
    windows = plan.starts * (3 * times.OPEN_S + 6 * (2 * plan.warm_s + plan.start_repeats * window_s))
    search = 12 * (plan.warm_s + plan.search_s + times.WINDOW_EXTRA_S) + 2 * times.OPEN_S
    rates = [rate for rate in plan.offers_s if wanted(only, f"rate={rate}")]
    offers = sum(2 * plan.offer_repeats * (plan.offers_s[rate] + times.OFFER_EXTRA_S) for rate in rates)
    offers += len(rates) * 5 * plan.offer_searches * (plan.offer_search_s + times.OFFER_EXTRA_S)
    total = times.SPARK_S + 4 * times.OPEN_S + offers
    if wanted(only, TRACKED):
        total += windows + search
    if plan.sustain and wanted(only, "sustainable"):
        total += 2 * times.SUSTAIN_STEPS * (times.SUSTAIN_OFFER_S + times.OFFER_EXTRA_S)
    return total


def compare(kind: str, plan: ComparisonTimes, pace: Pace, only: str | None = None) -> Found:
    """Run the whole comparison, or the one case asked for."""
    found = Found()
    with Contest(kind, lambda text: pace.step(text, times.SPARK_S)) as contest:
        pace.step("Getting Bytewax", 0)
        contest.find_peer()
        found.peer_missing, found.peer_version = contest.peer_missing, contest.peer_version
        if wanted(only, TRACKED):
            _saturated(contest, plan, pace, found)
        _offered(contest, plan, pace, found, only)
        pace.step("Closing and checking results", times.OPEN_S)
        contest.finish()
    return found


# -- saturated ---------------------------------------------------------------------------------------------------


def _saturated(contest: Contest, plan: ComparisonTimes, pace: Pace, found: Found) -> None:
    """Bytewax and the bare loop stay; Tailrace is started again a few times, since two queries of one kind differ."""
    peers = {PEER: _best_peer(contest, plan, pace, found)}
    if contest.kind == "wordcount":
        peers[PEER_TUNED] = _best_peer(contest, plan, pace, found, tuned=True)
    others: dict[str, Arm] = {BARE: contest.bare()} | {name: arm for name, arm in peers.items() if arm is not None}
    for _ in range(plan.starts):
        pace.step("Starting Tailrace on Spark and in processes", 3 * times.OPEN_S)
        ours = {name: contest.engine(name) for name in (TRACKED, UNTRACKED, PROCESSES)}
        for name, windows in _windows({**ours, **others}, plan, pace).items():
            found.windows[name] += windows
        _look_at_crossing(ours[TRACKED], found)
        for engine in ours.values():
            contest.retire(engine)
    for arm in others.values():
        contest.retire(arm)
    if found.crossing is not None:
        found.notes.append(
            f"{found.crossing:.1%} of the words cross workers; {TASKS} source tasks, each chained to its split, and "
            f"{TASKS} count tasks on {WORKERS} workers."
        )


def _windows(arms: Mapping[str, Arm], plan: ComparisonTimes, pace: Pace) -> dict[str, list[Window]]:
    for arm in arms.values():
        arm.saturate(plan.warm_s, plan.warm_s)

    def measure(name: str) -> Window:
        pace.step(f"Saturated: {arms[name].name}", plan.warm_s + plan.window_s + times.WINDOW_EXTRA_S)
        return arms[name].saturate(plan.warm_s, plan.window_s)

    return rounds.take(list(arms), plan.start_repeats, measure, pace, spare=plan.spare)


def _look_at_crossing(arm: EngineArm, found: Found) -> None:
    progress = arm.query.lastProgress if arm.query is not None else None
    if arm.kind == "wordcount" and progress is not None:
        found.crossing = crossing_share(progress, "split", "count")


def _best_peer(
    contest: Contest, plan: ComparisonTimes, pace: Pace, found: Found, *, tuned: bool = False
) -> BytewaxArm | None:
    """The setting of Bytewax that is fastest in a short window; the others are closed."""
    pace.step("Starting Bytewax in its settings", times.OPEN_S)
    speeds: dict[BytewaxArm, float] = {}
    for arm in contest.peers(tuned=tuned):
        pace.step(f"Searching its best: {arm.name}", plan.warm_s + plan.search_s + times.WINDOW_EXTRA_S)
        speeds[arm] = arm.saturate(plan.warm_s, plan.search_s).per_s
    if not speeds:
        return None
    best = max(speeds, key=lambda arm: speeds[arm])
    for arm in speeds:
        if arm is not best:
            contest.retire(arm)
    shown = "; ".join(f"{arm.setup} {speed:,.0f}/s" for arm, speed in speeds.items())
    found.notes.append(f"Bytewax {contest.peer_version} saturated: best is {best.setup}. Searched: {shown}.")
    return best


# -- at a rate ---------------------------------------------------------------------------------------------------


def _offered(contest: Contest, plan: ComparisonTimes, pace: Pace, found: Found, only: str | None) -> None:
    rates = [rate for rate in plan.offers_s if wanted(only, f"rate={rate}")]
    sustain = plan.sustain and wanted(only, "sustainable")
    if not rates and not sustain:
        return
    pace.step("Starting Tailrace and Bytewax with due times", 3 * times.OPEN_S)
    ours = {waiting: _timed(contest, waiting) for waiting in WAITINGS}
    tracked, peers = ours[DEFAULT_WAITING], contest.peers(timed=True)
    best: set[Arm] = set()
    for rate in rates:
        arms = {TRACKED: _best_at(rate, "Tailrace", list(ours.values()), plan, pace, found)}
        if peers:
            arms[PEER] = _best_at(rate, "Bytewax", peers, plan, pace, found)
            best.add(arms[PEER])
        _offer_rounds(rate, arms, plan, pace, found)
    if sustain:
        found.sustained[TRACKED] = _sustained(tracked, pace)
        if peers:
            found.sustained[PEER] = max(_sustained(arm, pace) for arm in best or peers[:1])


def _offer_rounds(rate: int, arms: Mapping[str, Arm], plan: ComparisonTimes, pace: Pace, found: Found) -> None:
    seconds = plan.offers_s[rate]

    def offer(name: str) -> Offered:
        arm = arms[name]
        pace.step(f"{rate:,}/s: {arm.name}", seconds + times.OFFER_EXTRA_S)
        latencies = arm.offer(rate, seconds)
        return Offered(latencies, arm.cores_used, arm.completes[-1] if isinstance(arm, EngineArm) else None)

    for name, offers in rounds.take(list(arms), plan.offer_repeats, offer, pace, spare=plan.offer_spare).items():
        found.latencies[rate, name] = [each.latencies for each in offers]
        found.cores_used[rate, name] = [each.cores_used for each in offers]
        if complete := [each.complete for each in offers if each.complete is not None]:
            found.latencies[rate, COMPLETE] = complete


def _timed(contest: Contest, waiting: str) -> EngineArm:
    settings = replace(SETTINGS, ring_waiting=waiting, ring_spin_us=SPIN_US)
    return contest.engine(TRACKED, label=f"{TRACKED} ({waiting}, timed)", timed=True, settings=settings)


def _best_at(rate: int, whose: str, arms: Sequence[Arm], plan: ComparisonTimes, pace: Pace, found: Found) -> Arm:
    """The setting with the shortest latencies at a rate: the least product of p50 and p90, so that both count alike.

    Each shows its best of a few offers. The p99 of so short a window is a handful of records: a stall would choose.
    """

    def offer(arm: Arm) -> tuple[float, float]:
        pace.step(f"Searching its best at {rate:,}/s: {arm.name}", plan.offer_search_s + times.OFFER_EXTRA_S)
        histogram = arm.offer(rate, plan.offer_search_s)
        return histogram.percentile(0.5) * _MS_PER_NS, histogram.percentile(0.9) * _MS_PER_NS

    found_of = rounds.take(arms, plan.offer_searches, offer, pace)
    shares = {arm: min(each, key=math.prod) for arm, each in found_of.items()}
    best = min(shares, key=lambda arm: math.prod(shares[arm]))
    shown = "; ".join(
        f"{arm.setup} {p50:.2f}/{p90:.2f} ms, {arm.cores_used:.2f} cores" for arm, (p50, p90) in shares.items()
    )
    found.notes.append(f"{whose} at {rate:,}/s: best is {best.setup}. Searched (p50/p90): {shown}.")
    return best


def _sustained(arm: Arm, pace: Pace) -> float:
    def holds(per_s: float) -> bool:
        pace.step(f"Sustainable rate: {per_s:,.0f}/s on {arm.name}", times.SUSTAIN_OFFER_S + times.OFFER_EXTRA_S)
        tail_ns = arm.offer(per_s, times.SUSTAIN_OFFER_S).percentile(times.SUSTAIN_SHARE)
        return tail_ns * _MS_PER_NS <= times.SUSTAIN_LIMIT_MS

    return sustainable_rate(holds, times.SUSTAIN_FIRST_PER_S, most_per_s=times.SUSTAIN_MOST_PER_S)
