"""The coordinator's part in moving key groups: one plan through its steps; ``moves`` queues, times and undoes it.

    ripen    older roots that are still cut another way come to their end (seldom any)
    hold     ``HoldSources`` to all -> ``Held`` by all: from which offsets the new cut holds
    cut      ``Regroup`` to all -> ``Relocated`` by all -> ``GoOn``: the groups are cut off where they are
    ripen    all roots below those offsets come to their end; nothing stands still
    pause    ``PauseKeys`` to all -> ``Cleared`` by old tasks, ``Installed`` by new ones
    switch   ``Regroup`` to all -> ``Relocated`` by all: the groups are at their new tasks

Untracked streams, of which nothing is sent again, begin at ``pause``. A plan can be undone except in ``cut`` and
``switch``, which are decided once they are said. Pure: owned by ``Moves``, which passes the clock's reading in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.acking.dedup import FIRST_INCARNATION
from tailrace.coordinator.plans import Plan
from tailrace.routing import key_table
from tailrace.topology.operators import KEYED_VERBS, KeyedOperator, Operator
from tailrace.worker.errors import MoveError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.protocol import KeyTable
    from tailrace.topology.plan import Stage
    from tailrace.worker.build import Program

#: Steps that are decided once they are said.
_DECIDED = frozenset({"cut", "switch"})


@dataclass
class KeyPlan(Plan):
    """Some key groups of a stage that move together, and what became of them."""

    stage: int = 0
    #: The new task of each group.
    groups: dict[int, int] = field(default_factory=dict)
    step: str = ""
    #: The offset of each partition from which on the groups are cut off.
    since: dict[int, int] = field(default_factory=dict)
    #: The first incarnation of partitions whose source had to be restarted.
    floors: dict[int, int] = field(default_factory=dict)
    is_cut: bool = False
    #: How long sources were held.
    held_ns: int = 0


def check_movable(program: Program, stage: Stage) -> None:
    """Refuse operators whose keys cannot be moved without losing something."""
    name, edges = stage.head.name, program.plan.inputs[stage.id]
    if not edges or any(edge.grouping.kind != "fields" for edge in edges):
        kinds = ", ".join(sorted({edge.grouping.kind for edge in edges})) or "no input"
        raise MoveError(
            f"Key groups move between the tasks of an operator whose input goes by key; {name!r} has {kinds}.",
            "Draw its input with .key_by(fn), or move whole tasks with query.move.",
        )
    if getattr(stage.head.fn, "two_choices", False):
        raise MoveError(
            f"Under routing={program.policy.routing!r} a key of {name!r} has two tasks, and no groups that could move.",
            "Run the query with another routing.",
        )
    for spec in stage.operators:
        kind = spec.fn if isinstance(spec.fn, type) else type(spec.fn)
        if issubclass(kind, Operator) and not (spec.verb in KEYED_VERBS and issubclass(kind, KeyedOperator)):
            raise MoveError(
                f"{spec.name!r} is the Operator {kind.__name__!r}, which may keep something per key by itself; that "
                "would stay behind when keys move.",
                "Derive it from KeyedOperator and keep what belongs to a key in `state`, or move whole tasks.",
            )


class KeyMoves:
    """How a plan for key groups goes on, step by step."""

    def __init__(self, brain: CoordinatorBrain, program: Program) -> None:
        self._brain = brain
        self._program = program

    def table(self, stage: int) -> KeyTable:
        """Who has which groups of a stage now."""
        found = self._brain.tables.get(stage)
        if found is None:
            found = key_table.first_table(self._tasks(stage), self._program.settings.key_groups)
        return found

    def tasks_of(self, stage: int) -> list[int]:
        """The task of each group of a stage."""
        return key_table.tasks_of(self.table(stage), self._tasks(stage))

    def _tasks(self, stage: int) -> int:
        return self._program.plan.stages[stage].tasks

    def asked(self, stage: int, groups: Mapping[int, int], why: str) -> KeyPlan:
        """Make the plan that somebody asks for; raises where it cannot be."""
        drawn = self._program.plan.stages[stage]
        check_movable(self._program, drawn)
        present = self.tasks_of(stage)
        for group, task in groups.items():
            if not 0 <= group < len(present):
                raise MoveError(f"{drawn.head.name!r} has key groups 0 to {len(present) - 1}; found {group}.")
            if not 0 <= task < drawn.tasks:
                raise MoveError(f"{drawn.head.name!r} has tasks 0 to {drawn.tasks - 1}; found {task}.")
        wanted = {group: task for group, task in groups.items() if present[group] != task}
        if both := {present[group] for group in wanted} & set(wanted.values()):
            raise MoveError(
                f"Task {min(both)} of {drawn.head.name!r} would both give key groups away and get some.",
                "Ask for one move after the other.",
            )
        return KeyPlan([], why, stage=stage, groups=wanted)

    # -- steps ---------------------------------------------------------------------------------------------------

    def begin(self, plan: KeyPlan, now_ns: int) -> None:
        """Take the first step; what has arrived by itself since it was asked for is left out."""
        present = self.tasks_of(plan.stage)
        plan.groups = {group: task for group, task in plan.groups.items() if present[group] != task}
        self._enter(plan, "ripen" if self._program.policy.tracked else "pause", now_ns)

    def _enter(self, plan: KeyPlan, step: str, now_ns: int) -> None:
        brain = self._brain
        plan.step, plan.begun_ns = step, now_ns
        plan.state = "switching" if step in _DECIDED else "moving"
        everyone = {("slot", slot) for slot, member in brain.members.items() if member.open}
        if step == "hold":
            plan.awaited = everyone
            brain.tell_all(protocol.HoldSources(plan.epoch, plan.stage, brain.restarts > 0))
        elif step == "pause":
            rows = self._rows(plan)
            plan.awaited = {(what, row) for row in range(len(rows)) for what in ("cleared", "installed")}
            # First, so that what is left of older roots is dropped wherever it arrives from now on.
            brain.tell_all(protocol.Beat(brain.marks))
            brain.tell_all(protocol.PauseKeys(plan.epoch, plan.stage, rows))
        elif step in _DECIDED:
            brain.tables[plan.stage] = table = self._next_table(plan)
            plan.awaited = everyone
            brain.tell_all(protocol.Regroup(plan.epoch, plan.stage, table))

    def _next_table(self, plan: KeyPlan) -> KeyTable:
        table, tasks = self.table(plan.stage), self._tasks(plan.stage)
        if plan.step == "cut":
            return key_table.cut(table, tasks, plan.groups, plan.since, plan.floors)
        made = key_table.moved if self._program.policy.tracked else key_table.moved_uncut
        return made(table, tasks, plan.groups)

    def _rows(self, plan: KeyPlan) -> list[tuple[int, int, list[int]]]:
        present = self.tasks_of(plan.stage)
        pairs: dict[tuple[int, int], list[int]] = {}
        for group, task in sorted(plan.groups.items()):
            pairs.setdefault((present[group], task), []).append(group)
        return [(old, new, groups) for (old, new), groups in sorted(pairs.items())]

    def hear(self, plan: KeyPlan, slot: int, message: protocol.FromWorker) -> None:
        """Take in what a worker says about the plan."""
        match message:
            case protocol.Held(offsets=offsets, incs=incs) if plan.step == "hold":
                for partition, offset in offsets.items():
                    plan.since[partition] = max(offset, plan.since.get(partition, 0))
                plan.floors |= {partition: inc for partition, inc in incs.items() if inc > FIRST_INCARNATION}
                plan.awaited.discard(("slot", slot))
            case protocol.Relocated() if plan.step in _DECIDED:
                plan.awaited.discard(("slot", slot))
            case protocol.Cleared(task=row):
                plan.awaited.discard(("cleared", row))
            case protocol.Installed(task=row):
                plan.awaited.discard(("installed", row))

    def step_on(self, plan: KeyPlan, now_ns: int) -> bool:
        """Take the next step if nothing is awaited; true when the plan is carried out."""
        if plan.awaited:
            return False
        if plan.step == "ripen":
            if key_table.ripe(self.table(plan.stage), self._brain.marks):
                self._enter(plan, "pause" if plan.is_cut else "hold", now_ns)
        elif plan.step == "hold":
            plan.held_ns = now_ns - plan.begun_ns
            self._enter(plan, "cut", now_ns)
        elif plan.step == "cut":
            plan.held_ns += now_ns - plan.begun_ns
            plan.is_cut = True
            self._brain.tell_all(protocol.GoOn(plan.epoch))
            self._enter(plan, "ripen", now_ns)
        elif plan.step == "pause":
            paused_ns = plan.begun_ns
            self._enter(plan, "switch", now_ns)
            plan.begun_ns = paused_ns
        else:
            return True
        return False

    def limit_s(self, plan: KeyPlan) -> float:
        """How long the present step may take before the plan is undone."""
        settings = self._program.settings
        return settings.key_move_wait_s if plan.step == "ripen" else settings.move_timeout_s

    def paused_ns(self, plan: KeyPlan, now_ns: int) -> int:
        """How long anything stood still: sources for the cut, then the tasks that take part."""
        return plan.held_ns + (now_ns - plan.begun_ns if plan.step in {"hold", "pause", "switch"} else 0)

    def missing(self, plan: KeyPlan) -> str:
        """What a plan waits for."""
        if plan.step == "ripen":
            return "tuples sent before the keys were cut off are still open"
        if plan.step == "hold":
            return "not every source stood still"
        rows = self._rows(plan)
        found = []
        for what, at in sorted(plan.awaited):
            old, new, _ = rows[at]
            told = f"task {old} did not let its keys go" if what == "cleared" else f"task {new} did not take them in"
            found.append(told)
        return "; ".join(found)

    def described(self, plan: KeyPlan) -> list[str]:
        """The moves of a plan, for people."""
        name = self._program.plan.stages[plan.stage].head.name
        counts: dict[int, int] = {}
        for task in plan.groups.values():
            counts[task] = counts.get(task, 0) + 1
        return [f"{count} key group(s) of {name} -> task {task}" for task, count in sorted(counts.items())]
