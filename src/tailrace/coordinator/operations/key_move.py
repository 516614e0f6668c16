"""The coordinator's part in moving key groups between tasks; ``worker/operations/key_move.py`` is the workers'.

    drain_before  older roots that are still cut another way come to their end (seldom any)
    hold          ``HoldSources`` to all -> ``Held`` by all: from which offsets the new cut holds
    cut           ``Regroup`` to all -> ``Switched`` by all, decided, then ``GoOn``: the groups are cut off
    drain         all roots below those offsets come to their end; nothing stands still
    transfer      ``PauseKeys`` to all -> ``Cleared`` by old tasks, ``Installed`` by new ones
    switch        ``Regroup`` to all -> ``Switched`` by all, decided: the groups are at their new tasks

Untracked streams, of which nothing is sent again, begin at ``transfer``. Decision 018 says why it takes two steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.acking.dedup import FIRST_INCARNATION
from tailrace.coordinator.operations.instructions import SetTable, Tell, TellWeights
from tailrace.coordinator.operations.operation import DONE, UNDONE, Awaited, Operation, OperationState
from tailrace.program.errors import MoveError
from tailrace.routing import key_table
from tailrace.topology.operators import KEYED_VERBS, KeyedOperator, Operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tailrace.coordinator.operations.cluster import ClusterView
    from tailrace.coordinator.operations.events import Heard
    from tailrace.coordinator.operations.instructions import Instruction
    from tailrace.errors import TailraceError
    from tailrace.program.program import Program
    from tailrace.protocol import KeyTable
    from tailrace.topology.plan import Stage


def table_of(cluster: ClusterView, stage: int) -> KeyTable:
    """Who has which groups of a stage now."""
    found = cluster.tables.get(stage)
    if found is None:
        program = cluster.program
        found = key_table.first_table(program.plan.stages[stage].tasks, program.settings.key_groups)
    return found


def tasks_of(cluster: ClusterView, stage: int) -> list[int]:
    """The task of each group of a stage."""
    return key_table.tasks_of(table_of(cluster, stage), cluster.program.plan.stages[stage].tasks)


class KeyMove(Operation):
    """Some key groups of a stage that move together."""

    shown = True

    def __init__(self, cluster: ClusterView, stage: int, groups: Mapping[int, int], why: str) -> None:
        super().__init__(cluster, why)
        self.stage = stage
        #: The new task of each group.
        self.groups = dict(groups)
        #: The offset of each partition from which on the groups are cut off.
        self._since: dict[int, int] = {}
        #: The first incarnation of partitions whose source had to be restarted.
        self._floors: dict[int, int] = {}
        self._rows: list[tuple[int, int, list[int]]] = []
        settings = cluster.program.settings
        drain_s, move_s, decided_s = settings.key_move_wait_s, settings.move_timeout_s, settings.register_timeout_s
        self._states = {
            "drain_before": OperationState(self._wait, "hold", drain_s, ready=self._drained),
            "hold": OperationState(self._hold, "cut", move_s, pauses=True),
            "cut": OperationState(self._cut, "drain", decided_s, decided=True, pauses=True, leave=self._read_on),
            "drain": OperationState(self._wait, "transfer", drain_s, ready=self._drained),
            "transfer": OperationState(self._pause, "switch", move_s, pauses=True),
            "switch": OperationState(self._switch, DONE, decided_s, decided=True, pauses=True),
        }

    @property
    def states(self) -> dict[str, OperationState]:
        """How it goes."""
        return self._states

    @property
    def _tasks(self) -> int:
        return self.cluster.program.plan.stages[self.stage].tasks

    def begin(self) -> str:
        """Look again who has the groups: moves in front of this one may have changed that since it was asked for."""
        try:
            self.groups = wanted_groups(self.cluster, self.stage, self.groups)
        except MoveError as error:
            self.reason, self.hint = error.message, error.hint
            return UNDONE
        if not self.groups:
            return DONE
        return "drain_before" if self.cluster.program.policy.tracked else "transfer"

    # -- states --------------------------------------------------------------------------------------------------

    def _wait(self) -> Iterable[Instruction]:
        return ()

    def _drained(self) -> bool:
        return key_table.ripe(table_of(self.cluster, self.stage), self.cluster.marks)

    def _hold(self) -> Iterator[Instruction]:
        self.awaited = self.everyone("held")
        yield Tell(protocol.HoldSources(self.epoch, self.stage, self.cluster.restarts > 0))

    def _cut(self) -> Iterator[Instruction]:
        table = table_of(self.cluster, self.stage)
        yield from self._regroup(key_table.cut(table, self._tasks, self.groups, self._since, self._floors))

    def _read_on(self) -> Iterator[Instruction]:
        yield Tell(protocol.GoOn(self.epoch))

    def _pause(self) -> Iterator[Instruction]:
        self._rows = self._rows_now()
        for row, (old, new, _) in enumerate(self._rows):
            slots = self.cluster.placement[self.stage]
            self.awaited |= {Awaited("cleared", slots[old], row), Awaited("installed", slots[new], row)}
        # First, so that what is left of older roots is dropped wherever it arrives from now on.
        yield Tell(protocol.Beat(self.cluster.marks))
        yield Tell(protocol.PauseKeys(self.epoch, self.stage, self._rows))

    def _switch(self) -> Iterator[Instruction]:
        made = key_table.moved if self.cluster.program.policy.tracked else key_table.moved_uncut
        yield from self._regroup(made(table_of(self.cluster, self.stage), self._tasks, self.groups))

    def _regroup(self, table: KeyTable) -> Iterator[Instruction]:
        self.awaited = self.everyone("switched")
        yield SetTable(self.stage, table)
        yield Tell(protocol.Regroup(self.epoch, self.stage, table))

    def _rows_now(self) -> list[tuple[int, int, list[int]]]:
        present = tasks_of(self.cluster, self.stage)
        pairs: dict[tuple[int, int], list[int]] = {}
        for group, task in sorted(self.groups.items()):
            pairs.setdefault((present[group], task), []).append(group)
        return [(old, new, groups) for (old, new), groups in sorted(pairs.items())]

    def hear(self, event: Heard) -> None:
        """Take in what a worker says: how far its sources have read, and what all kinds hear."""
        message = event.message
        if isinstance(message, protocol.Held):
            if self.state == "hold":
                for partition, offset in message.offsets.items():
                    self._since[partition] = max(offset, self._since.get(partition, 0))
                self._floors |= {part: inc for part, inc in message.incs.items() if inc > FIRST_INCARNATION}
                self.awaited.discard(Awaited("held", event.slot))
        else:
            super().hear(event)

    def finish(self) -> Iterable[Instruction]:
        """Tasks that have other keys now may do with other weights."""
        return Tell(protocol.GoOn(self.epoch)), TellWeights()

    # -- for people ----------------------------------------------------------------------------------------------

    def missing(self) -> list[str]:
        """What it still waits for."""
        if self.states[self.state].ready == self._drained:
            return ["tuples sent before the keys were cut off are still open"]
        if self.state == "hold":
            return ["not every source stood still"]
        return super().missing()

    def described(self, awaited: Awaited) -> str:
        """Name the task, or the worker."""
        if awaited.row < 0:
            return f"worker {awaited.slot} did not go over to the new table"
        old, new, _ = self._rows[awaited.row]
        if awaited.what == "cleared":
            return f"task {old} did not let its keys go"
        return f"task {new} did not take them in"

    def moves(self) -> list[str]:
        """What moves, for people."""
        name = self.cluster.program.plan.stages[self.stage].head.name
        counts: dict[int, int] = {}
        for task in self.groups.values():
            counts[task] = counts.get(task, 0) + 1
        return [f"{count} key group(s) of {name} -> task {task}" for task, count in sorted(counts.items())]

    def failure(self) -> TailraceError:
        """Say that nothing has moved."""
        return MoveError(f"The keys stay where they were: {self.reason}", self.hint)


def wanted_groups(cluster: ClusterView, stage: int, groups: Mapping[int, int]) -> dict[int, int]:
    """The groups of those asked for that are not where they should be; raises where they cannot move."""
    drawn = cluster.program.plan.stages[stage]
    check_movable(cluster.program, drawn)
    present = tasks_of(cluster, stage)
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
    return wanted


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
