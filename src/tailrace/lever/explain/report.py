"""Puts the parts of ``explain`` together; ``wording`` words them.

Called by the command line; ``LogReport.as_dict`` is for those who want figures, ``LogReport.text`` for those who read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..plans import DEFAULT_PLAN, BatchPlan, plan_of
from . import wording
from .causes import causes_of, large_tasks
from .eventlog import read_event_log
from .locality import straggler_locality, usable
from .replay import estimate, recurring, replay
from .tables import is_table, read_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .causes import Cause, LargeTask
    from .locality import Locality
    from .replay import Estimate, Replayed
    from .tasks import StageAttempt


@dataclass(frozen=True, slots=True)
class StageGroup:
    """What was found in stages that recur: those of an application, or of one streaming query."""

    stages: list[StageAttempt]
    locality: Locality
    causes: list[Cause]
    large_tasks: list[LargeTask]
    replayed: list[Replayed]
    estimate: Estimate

    def as_dict(self) -> dict[str, Any]:
        """Figures only; those of an estimate that cannot be given are None, with the reason beside them."""
        found, gain = self.locality, self.estimate
        return {
            "stages_used": found.stages_used,
            "slow_stages": {executor: list(own) for executor, own in found.slow_stages.items()},
            "causes": [
                {
                    "stage": cause.stage,
                    "executor": cause.executor,
                    "kind": cause.kind,
                    "time_factor": cause.time_factor,
                    "input_factor": cause.input_factor,
                }
                for cause in self.causes
            ],
            "large_tasks": [
                {
                    "stage": task.stage,
                    "task": task.index,
                    "executor": task.executor,
                    "time_factor": task.time_factor,
                    "input_factor": task.input_factor,
                    task.unit: task.input_size,
                }
                for task in self.large_tasks
            ],
            "base_rate": found.base_rate,
            "p_slow_after_slow": found.p_after_slow,
            "n_after_slow": found.after_slow[1],
            "p_slow_after_not": found.p_after_not,
            "n_after_not": found.after_not[1],
            "lift": found.lift,
            "recorded_ms": gain.recorded_ms,
            "planned_ms": None if gain.reason else gain.planned_ms,
            "no_estimate": gain.reason or None,
        }


@dataclass(frozen=True, slots=True)
class LogReport:
    """What was found in one event log."""

    source: str
    stages: int
    tasks: int
    plan: str
    groups: dict[str, StageGroup]

    @property
    def locality(self) -> dict[str, Locality]:
        """How slowness is spread, per group."""
        return {name: group.locality for name, group in self.groups.items()}

    def as_dict(self) -> dict[str, Any]:
        """Figures only."""
        return {
            "source": self.source,
            "stages": self.stages,
            "tasks": self.tasks,
            "plan": self.plan,
            "groups": {name: group.as_dict() for name, group in self.groups.items()},
        }

    def text(self) -> str:
        """Word the report."""
        lines = [f"{self.source}: {self.tasks} tasks in {self.stages} stages."]
        for name, group in self.groups.items():
            lines += ["", f"{name}: {group.locality.stages_used} stages with enough tasks to compare executors."]
            lines += wording.who(group.locality, group.causes)
            lines += wording.large(group.large_tasks)
            lines += wording.how_persistent(group.locality)
            lines += wording.what_gain(group.estimate, self.plan)
        return "\n".join(lines)


def explain(path: Path, plan: str | BatchPlan = DEFAULT_PLAN) -> LogReport:
    """Analyse an event log (file or rolling folder, plain or compressed) or a table of tasks."""
    stages = read_table(path) if is_table(path) else read_event_log(path)
    chosen = plan_of(plan)
    return LogReport(
        source=path.name,
        stages=len(stages),
        tasks=sum(len(stage.tasks) for stage in stages),
        plan=chosen.name,
        groups={name: _group(own, chosen) for name, own in recurring(stages).items()},
    )


def _group(stages: Sequence[StageAttempt], plan: BatchPlan) -> StageGroup:
    used = usable(stages)
    replayed = replay(used, plan)
    return StageGroup(
        list(stages), straggler_locality(stages), causes_of(used), large_tasks(stages), replayed, estimate(replayed)
    )
