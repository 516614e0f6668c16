"""A word count with a checkpoint every second beside the same without: speed saturated, latencies at a rate.

Both arms are up at once and take turns; they are started anew a few times, because two queries of one kind differ.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tailrace.checkpoint.settings import Checkpoint
from tailrace_bench.arms.contest import TRACKED, Contest
from tailrace_bench.measurement import plan as times
from tailrace_bench.measurement import rounds
from tailrace_bench.reporting.rows import make_row

if TYPE_CHECKING:
    from tailrace_bench.arms.engine import EngineArm
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.measurement.plan import ComparisonTimes
    from tailrace_bench.reporting.rows import Row

CASE = "checkpoints"
ON, OFF = "every_s=1", "off"
RATE = 2000
#: With checkpoints: at least this share of the speed without, and at most so many times the tail.
SPEED_BAR, TAIL_BAR = 0.90, 1.5
_MS_PER_NS = 1e-6


def planned_s(plan: ComparisonTimes) -> float:
    """About how long it takes."""
    window_s = plan.warm_s + plan.window_s + times.WINDOW_EXTRA_S
    saturated = plan.starts * (2 * times.OPEN_S + 2 * plan.start_repeats * window_s)
    return times.SPARK_S + saturated + 2 * plan.offer_repeats * (_offer_s(plan) + times.OFFER_EXTRA_S)


def _offer_s(plan: ComparisonTimes) -> float:
    """Long enough that every offer meets a checkpoint."""
    return max(2.0, plan.offers_s[RATE])


def rows(plan: ComparisonTimes, pace: Pace) -> list[Row]:
    """Measure both arms in turns."""
    speeds: dict[str, list[float]] = defaultdict(list)
    tails: dict[str, list[float]] = defaultdict(list)
    with Contest("wordcount", lambda text: pace.step(text, times.SPARK_S)) as contest:
        for start in range(plan.starts):
            pace.step("Starting word counts with and without checkpoints", 2 * times.OPEN_S)
            _saturated(_opened(contest, start, timed=False), plan, pace, speeds)
            contest.finish()
        _offered(_opened(contest, plan.starts, timed=True), plan, pace, tails)
        contest.finish()
    return [
        make_row(
            CASE, "sentences_per_s", "sentences/s", speeds[ON],
            better="higher", baseline=OFF, base=speeds[OFF], bar=SPEED_BAR,
        ),
        make_row(
            f"{CASE},rate={RATE}", "p99_ms", "ms", tails[ON],
            better="lower", baseline=OFF, base=tails[OFF], bar=TAIL_BAR,
        ),
    ]  # fmt: skip


def _opened(contest: Contest, start: int, *, timed: bool) -> dict[str, EngineArm]:
    where = Checkpoint(contest.folder / f"checkpoint-{start}", every_s=1.0)
    return {
        name: contest.engine(TRACKED, label=f"{name} {start}", timed=timed, checkpoint=durable)
        for name, durable in ((ON, where), (OFF, None))
    }


def _saturated(arms: dict[str, EngineArm], plan: ComparisonTimes, pace: Pace, speeds: dict[str, list[float]]) -> None:
    for arm in arms.values():
        arm.saturate(plan.warm_s, plan.warm_s)

    def measure(name: str) -> float:
        pace.step(f"Saturated: {name}", plan.warm_s + plan.window_s + times.WINDOW_EXTRA_S)
        return arms[name].saturate(plan.warm_s, plan.window_s).per_s

    for name, found in rounds.take(list(arms), plan.start_repeats, measure, pace, spare=plan.spare).items():
        speeds[name] += found


def _offered(arms: dict[str, EngineArm], plan: ComparisonTimes, pace: Pace, tails: dict[str, list[float]]) -> None:
    def offer(name: str) -> float:
        pace.step(f"{RATE:,}/s: {name}", _offer_s(plan) + times.OFFER_EXTRA_S)
        return arms[name].offer(RATE, _offer_s(plan)).percentile(0.99) * _MS_PER_NS

    for name, found in rounds.take(list(arms), plan.offer_repeats, offer, pace, spare=plan.offer_spare).items():
        tails[name] += found
