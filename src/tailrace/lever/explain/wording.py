"""Puts the findings of ``explain`` into words. Called by the report.

Who was slow and by how much, who had more data, whether that stays, and what a plan would have gained.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from .causes import DATA, SLOW, TASKS_SHOWN_MAX, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .causes import Cause, LargeTask
    from .locality import Locality
    from .replay import Estimate

TRANSITIONS_MIN = 20
STAGES_SHOWN = 12
FACTOR_SHOWN_MAX = 100


def who(found: Locality, causes: Sequence[Cause]) -> list[str]:
    """One line per executor and kind of finding, the most frequent first."""
    if not causes:
        return ["  No executor was slow in any of them (mean task duration over 1.2 times the mean of all)."]
    grouped: dict[tuple[str, str], list[Cause]] = defaultdict(list)
    for cause in causes:
        grouped[cause.kind, cause.executor].append(cause)
    order = (SLOW, UNKNOWN, DATA)
    ranked = sorted(grouped.items(), key=lambda item: (order.index(item[0][0]), -len(item[1]), item[0][1]))
    return [_line(kind, executor, own, found) for (kind, executor), own in ranked] + _advice(causes)


def _line(kind: str, executor: str, own: Sequence[Cause], found: Locality) -> str:
    which = ", ".join(str(cause.stage) for cause in own[:STAGES_SHOWN]) + (" ..." if len(own) > STAGES_SHOWN else "")
    where = f"  executor {executor} on {found.hosts[executor]}"
    of = f"{len(own)} of {found.stages_of[executor]} stages"
    time = _factors([cause.time_factor for cause in own])
    inputs = [cause.input_factor for cause in own if cause.input_factor is not None]
    if kind == SLOW:
        return (
            f"{where} was slow in {of}: a task took {time} as long as on the median executor, "
            f"at {_factors(inputs)} the input: {which}"
        )
    if kind == DATA:
        return (
            f"{where} had more data in {of}: a task took {time} as long as on the median executor, "
            f"with {_factors(inputs)} the input: {which}"
        )
    return f"{where} was slow in {of}: a task took {time} as long as on the median executor (input unknown): {which}"


def _factors(factors: Sequence[float]) -> str:
    """The typical factor, and the largest where it is another."""
    typical, most = _times(median(factors)), _times(max(factors))
    return typical if typical == most else f"{typical} (up to {most})"


def _times(factor: float) -> str:
    return f"{factor:.1f}x" if factor <= FACTOR_SHOWN_MAX else f"over {FACTOR_SHOWN_MAX}x"


def _advice(causes: Sequence[Cause]) -> list[str]:
    kinds = {cause.kind for cause in causes}
    lines = []
    if UNKNOWN in kinds:
        lines.append("  Where the log counts no input, a slow executor cannot be told from one that had more data.")
    if DATA in kinds:
        lines.append("  More data is skew, not a slow executor: repartition or salt keys; no plan by speed mends it.")
    return lines


def large(tasks: Sequence[LargeTask]) -> list[str]:
    """The tasks that took long because they had more to read."""
    lines = [
        f"  stage {task.stage}, task {task.index} on executor {task.executor} had more data: "
        f"{_times(task.time_factor)} the time of the stage's median task, {_times(task.input_factor)} its input "
        f"({task.input_size:,} {task.unit})"
        for task in tasks[:TASKS_SHOWN_MAX]
    ]
    left = len(tasks) - len(lines)
    return lines + ([f"  and {left} more tasks with more data than others of their stage"] if left else [])


def how_persistent(found: Locality) -> list[str]:
    """Whether who was slow is slow again."""
    after, otherwise = found.p_after_slow, found.p_after_not
    if after is None or otherwise is None:
        return ["  Too few stages follow one another to say whether slowness stays."]
    lift = f"{found.lift:.1f} times as likely" if found.lift else _no_lift(found)
    line = (
        f"  Slow again after slow: {after:.2f} (of {found.after_slow[1]}); slow after not slow: {otherwise:.2f} "
        f"(of {found.after_not[1]}); base rate {found.base_rate:.2f}: {lift}."
    )
    few = found.after_slow[1] < TRANSITIONS_MIN
    return [line] + (["  These are few transitions; read them as a hint only."] if few else [])


def _no_lift(found: Locality) -> str:
    return "nobody stayed slow" if found.after_not[0] else "a lift that cannot be given (nobody became slow)"


def what_gain(found: Estimate, plan: str) -> list[str]:
    """What the plan would have made of the batches."""
    if found.reason:
        return [f"  Replayed through the plan {plan!r}: no estimate, because {found.reason}."]
    figures = (
        f"{found.planned_ms / 1000:.1f} s instead of {found.recorded_ms / 1000:.1f} s "
        f"({_percent(found.planned_ms, found.recorded_ms)}); with perfect knowledge {found.ideal_ms / 1000:.1f} s "
        f"({_percent(found.ideal_ms, found.recorded_ms)})"
    )
    verdict = (
        "An estimate: fixed costs per task are not in it."
        if found.planned_ms < found.recorded_ms
        else "Pre-scheduling would not have helped: these stages are not alike, or small tasks levelled them already."
    )
    return [f"  Replayed through the plan {plan!r}: {figures}. {verdict}"]


def _percent(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.0f} %"
