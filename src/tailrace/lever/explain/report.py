"""Puts the parts of ``explain`` together and words them.

Called by the command line; ``Report.as_dict`` is for those who want figures, ``Report.text`` for those who read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..plans import DEFAULT_PLAN, Plan, plan_of
from .eventlog import read_event_log
from .locality import Locality, straggler_locality, usable
from .replay import Replayed, recurring, replay
from .tables import is_table, read_table

if TYPE_CHECKING:
    from pathlib import Path

TRANSITIONS_MIN = 20
STAGES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in one event log."""

    source: str
    stages: int
    tasks: int
    plan: str
    locality: dict[str, Locality]
    """Per recurring group: the application, or each streaming query."""
    replayed: dict[str, list[Replayed]]

    def as_dict(self) -> dict[str, Any]:
        """Figures only."""
        return {
            "source": self.source,
            "stages": self.stages,
            "tasks": self.tasks,
            "plan": self.plan,
            "groups": {
                group: {
                    "stages_used": found.stages_used,
                    "slow_stages": {executor: list(own) for executor, own in found.slow_stages.items()},
                    "base_rate": found.base_rate,
                    "p_slow_after_slow": found.p_after_slow,
                    "n_after_slow": found.after_slow[1],
                    "p_slow_after_not": found.p_after_not,
                    "n_after_not": found.after_not[1],
                    "lift": found.lift,
                    "recorded_ms": sum(each.recorded_ms for each in self.replayed[group]),
                    "planned_ms": sum(each.planned_ms for each in self.replayed[group]),
                }
                for group, found in self.locality.items()
            },
        }

    def text(self) -> str:
        """Word the report."""
        lines = [f"{self.source}: {self.tasks} tasks in {self.stages} stages."]
        for group, found in self.locality.items():
            lines += ["", f"{group}: {found.stages_used} stages with enough tasks to compare executors."]
            lines += _who(found)
            lines += _how_persistent(found)
            lines += _what_gain(self.replayed[group], self.plan)
        return "\n".join(lines)


def explain(path: Path, plan: str | Plan = DEFAULT_PLAN) -> Report:
    """Analyse an event log (file or rolling folder, plain or compressed) or a table of tasks."""
    stages = read_table(path) if is_table(path) else read_event_log(path)
    chosen = plan_of(plan)
    groups = recurring(stages)
    return Report(
        source=path.name,
        stages=len(stages),
        tasks=sum(len(stage.tasks) for stage in stages),
        plan=chosen.name,
        locality={group: straggler_locality(own) for group, own in groups.items()},
        replayed={group: replay(usable(own), chosen) for group, own in groups.items()},
    )


def _who(found: Locality) -> list[str]:
    if not found.slow_stages:
        return ["  No executor was slow in any of them (mean task duration over 1.2 times the mean of all)."]
    lines = []
    for executor, own in found.slow_stages.items():
        which = ", ".join(map(str, own[:STAGES_SHOWN])) + (" ..." if len(own) > STAGES_SHOWN else "")
        of = found.stages_of[executor]
        lines.append(f"  executor {executor} on {found.hosts[executor]} was slow in {len(own)} of {of} stages: {which}")
    return lines


def _how_persistent(found: Locality) -> list[str]:
    after, otherwise = found.p_after_slow, found.p_after_not
    if after is None or otherwise is None:
        return ["  Too few stages follow one another to say whether slowness stays."]
    lift = f"{found.lift:.1f} times as likely" if found.lift else "a lift that cannot be given (nobody became slow)"
    line = (
        f"  Slow again after slow: {after:.2f} (of {found.after_slow[1]}); slow after not slow: {otherwise:.2f} "
        f"(of {found.after_not[1]}); base rate {found.base_rate:.2f}: {lift}."
    )
    few = found.after_slow[1] < TRANSITIONS_MIN
    return [line] + (["  These are few transitions; read them as a hint only."] if few else [])


def _what_gain(replayed: list[Replayed], plan: str) -> list[str]:
    recorded_ms = sum(each.recorded_ms for each in replayed)
    if not recorded_ms:
        return []
    planned_ms = sum(each.planned_ms for each in replayed)
    ideal_ms = sum(each.ideal_ms for each in replayed)
    figures = (
        f"{planned_ms / 1000:.1f} s instead of {recorded_ms / 1000:.1f} s ({_percent(planned_ms, recorded_ms)}); "
        f"with perfect knowledge {ideal_ms / 1000:.1f} s ({_percent(ideal_ms, recorded_ms)})"
    )
    verdict = (
        "An estimate: fixed costs per task are not in it."
        if planned_ms < recorded_ms
        else "Pre-scheduling would not have helped: these stages are not alike, or small tasks levelled them already."
    )
    return [f"  Replayed through the plan {plan!r}: {figures}. {verdict}"]


def _percent(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.0f} %"
