"""The coordinator's part in moving tasks to other workers; ``worker/operations/task_move.py`` is the workers'.

transfer   ``Pause`` to all -> ``Cleared`` by every old place, ``Installed`` by every new one
relocate   ``Relocate`` to all -> ``Switched`` by all, decided: the new places hold, and whoever is lost comes back
under them; then ``GoOn`` to all
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.coordinator.operations.instructions import Place, Tell, TellWeights
from tailrace.coordinator.operations.operation import DONE, UNDONE, Awaited, Operation, OperationState
from tailrace.program.errors import MoveError
from tailrace.receiving.shared import shares

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.coordinator.operations.cluster import ClusterView
    from tailrace.coordinator.operations.instructions import Instruction
    from tailrace.errors import TailraceError
    from tailrace.program.program import Program

#: Stage, task and the slot it goes to.
Wanted = tuple[int, int, int]


class TaskMove(Operation):
    """Some tasks that move together."""

    shown = True

    def __init__(self, cluster: ClusterView, wanted: list[Wanted], why: str) -> None:
        super().__init__(cluster, why)
        self.wanted = wanted
        settings = cluster.program.settings
        self._states = {
            "transfer": OperationState(self._pause, "relocate", settings.move_timeout_s, pauses=True),
            "relocate": OperationState(self._relocate, DONE, settings.register_timeout_s, decided=True, pauses=True),
        }

    @property
    def states(self) -> dict[str, OperationState]:
        """How it goes."""
        return self._states

    def begin(self) -> str:
        """Leave out what has arrived by itself since it was asked for."""
        self.wanted = [each for each in self.wanted if self.cluster.placement[each[0]][each[1]] != each[2]]
        if any(slot not in self.cluster.open_slots for _, _, slot in self.wanted):
            self.reason = "a worker has left"
            return UNDONE
        return "transfer" if self.wanted else DONE

    def _pause(self) -> Iterator[Instruction]:
        rows = [[stage, task, self.cluster.placement[stage][task], slot] for stage, task, slot in self.wanted]
        for row, (_, _, old, new) in enumerate(rows):
            self.awaited |= {Awaited("cleared", old, row), Awaited("installed", new, row)}
        yield Tell(protocol.Pause(self.epoch, rows))

    def _relocate(self) -> Iterator[Instruction]:
        self.awaited = self.everyone("switched")
        for stage, task, slot in self.wanted:
            yield Place(stage, task, slot)
        yield Tell(protocol.Relocate(self.epoch))

    def finish(self) -> Iterable[Instruction]:
        """Let sources read; a task that moved has begun with equal weights."""
        return Tell(protocol.GoOn(self.epoch)), TellWeights()

    def _name(self, stage: int) -> str:
        return self.cluster.program.plan.stages[stage].head.name

    def described(self, awaited: Awaited) -> str:
        """Name the task, or the worker."""
        if awaited.row < 0:
            return f"worker {awaited.slot} did not go over to the new places"
        stage, task, _ = self.wanted[awaited.row]
        told = "was not let go" if awaited.what == "cleared" else "was not taken in"
        return f"task {task} of {self._name(stage)!r} {told}"

    def moves(self) -> list[str]:
        """What moves, for people."""
        return [f"{self._name(stage)}[{task}] -> worker {slot}" for stage, task, slot in self.wanted]

    def failure(self) -> TailraceError:
        """Say that nothing has moved."""
        return MoveError(f"The tasks stay where they were: {self.reason}", self.hint)


def check_may_move(program: Program, stage_id: int) -> None:
    """Refuse tasks that cannot move one by one."""
    stage, policy = program.plan.stages[stage_id], program.policy
    if stage.is_source and not getattr(stage.head.fn, "movable", True):
        raise MoveError(
            f"The source {stage.head.name!r} cannot be opened again elsewhere at the offset it has reached.",
            "Move the other operators.",
        )
    if not stage.is_source and shares(stage, program.plan.inputs[stage_id], policy.inbox, policy.sharing):
        raise MoveError(
            f"The tasks of {stage.head.name!r} take from a shared inbox and cannot move one by one.",
            "Run the query with inbox='per_task' where tasks are to move.",
        )
