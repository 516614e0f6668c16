"""Who is slow in which stage, and does slowness stay: the conditional probability and its lift over the base rate.

Called by the report. Pure. The paper gives P(slow | slow before) alone; without the rate after a stage that was not
slow, and without the base rate, that number says nothing, so all three are always given together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .tasks import StageAttempt

SLOW_FACTOR = 1.2
TASKS_PER_EXECUTOR_MIN = 2


@dataclass(frozen=True, slots=True)
class Locality:
    """How slowness is spread over executors and carried from stage to stage."""

    stages_used: int
    slow_stages: dict[str, tuple[int, ...]]
    """Per executor the stages in which it was slow, most often slow first."""
    hosts: dict[str, str]
    stages_of: dict[str, int]
    """Per executor the stages it took part in."""
    base_rate: float
    after_slow: tuple[int, int]
    """(slow again, of how many)."""
    after_not: tuple[int, int]

    @property
    def p_after_slow(self) -> float | None:
        """P(slow | slow in the stage before)."""
        return self.after_slow[0] / self.after_slow[1] if self.after_slow[1] else None

    @property
    def p_after_not(self) -> float | None:
        """P(slow | not slow in the stage before)."""
        return self.after_not[0] / self.after_not[1] if self.after_not[1] else None

    @property
    def lift(self) -> float | None:
        """How many times likelier a slow executor is to be slow again than one that was not slow."""
        if self.p_after_slow is None or not self.p_after_not:
            return None
        return self.p_after_slow / self.p_after_not


def slow_executors(stage: StageAttempt) -> dict[str, bool]:
    """An executor is slow if the mean duration of its tasks is over 1.2 times the mean of these means."""
    durations_ms: dict[str, list[int]] = defaultdict(list)
    for task in stage.tasks:
        durations_ms[task.executor].append(task.duration_ms)
    means_ms = {executor: mean(own) for executor, own in durations_ms.items()}
    bar_ms = SLOW_FACTOR * mean(means_ms.values())
    return {executor: value > bar_ms for executor, value in means_ms.items()}


def usable(stages: Sequence[StageAttempt]) -> list[StageAttempt]:
    """Stages with at least two executors and enough tasks to compare their means.

    Planned stages have one task per core, so stages of a streaming query need only one task per executor.
    """
    return [
        stage
        for stage in stages
        if len(stage.executors) > 1
        and len(stage.tasks) >= (1 if stage.query else TASKS_PER_EXECUTOR_MIN) * len(stage.executors)
    ]


def straggler_locality(stages: Sequence[StageAttempt]) -> Locality:
    """Follow every executor from each usable stage to the next."""
    used = usable(stages)
    verdicts = [slow_executors(stage) for stage in used]
    slow: dict[str, list[int]] = defaultdict(list)
    present: Counter[str] = Counter()
    hosts = {task.executor: task.host for stage in stages for task in stage.tasks}
    for stage, verdict in zip(used, verdicts, strict=True):
        for executor, is_slow in verdict.items():
            present[executor] += 1
            if is_slow:
                slow[executor].append(stage.stage)
    steps: Counter[tuple[bool, bool]] = Counter()
    for before, after in pairwise(verdicts):
        for executor in before.keys() & after.keys():
            steps[before[executor], after[executor]] += 1
    total = sum(present.values())
    return Locality(
        stages_used=len(used),
        slow_stages={e: tuple(slow[e]) for e in sorted(slow, key=lambda e: (-len(slow[e]), e))},
        hosts=hosts,
        stages_of=dict(present),
        base_rate=sum(map(len, slow.values())) / total if total else 0.0,
        after_slow=(steps[True, True], steps[True, True] + steps[True, False]),
        after_not=(steps[False, True], steps[False, True] + steps[False, False]),
    )
