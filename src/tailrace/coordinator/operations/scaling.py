"""Workers that join a query that runs, and workers that leave it, as operations: tasks move by ``task_move`` between.

    join    whoever has registered is made known to the others and deployed -> it opens; or it is dismissed
    leave   workers without tasks are dismissed, decided

A worker that registers while something else is under way waits: it would have no part in that, and be asked for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.coordinator.operations.instructions import Admit, Dismiss
from tailrace.coordinator.operations.operation import DONE, UNDONE, Awaited, Operation, OperationState
from tailrace.program.errors import MoveError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.coordinator.operations.cluster import ClusterView
    from tailrace.coordinator.operations.instructions import Instruction
    from tailrace.errors import TailraceError


class WorkersJoin(Operation):
    """All workers that have registered for new slots and wait."""

    priority = 1
    single = True

    def __init__(self, cluster: ClusterView, why: str) -> None:
        super().__init__(cluster, why)
        self._states = {"join": OperationState(self._join, DONE, cluster.program.settings.register_timeout_s)}

    @property
    def states(self) -> dict[str, OperationState]:
        """How it goes."""
        return self._states

    def begin(self) -> str:
        """Begin unless all have gone meanwhile."""
        return "join" if self.cluster.waiting_slots else DONE

    def _join(self) -> Iterator[Instruction]:
        self.awaited = {Awaited("opened", slot) for slot in self.cluster.waiting_slots}
        yield Admit()

    def lost(self, slot: int) -> str:
        """Go on without whoever is lost: its successor comes as that of any other worker."""
        self.awaited = {each for each in self.awaited if each.slot != slot}
        return ""

    def undo(self) -> Iterable[Instruction]:
        """Let those go that have not opened their tasks."""
        yield Dismiss(tuple(sorted(each.slot for each in self.awaited)))

    def described(self, awaited: Awaited) -> str:
        """Name the worker."""
        return f"worker {awaited.slot} has not opened its tasks"


class WorkersLeave(Operation):
    """Workers that have no tasks any more."""

    def __init__(self, cluster: ClusterView, slots: Iterable[int], why: str) -> None:
        super().__init__(cluster, why)
        self._slots = tuple(slots)
        limit_s = cluster.program.settings.move_timeout_s
        self._states = {"leave": OperationState(self._leave, DONE, limit_s, decided=True)}

    @property
    def states(self) -> dict[str, OperationState]:
        """How it goes."""
        return self._states

    def begin(self) -> str:
        """Look whether they have no tasks: others may have moved some there since it was asked for."""
        busy = sorted({slot for row in self.cluster.placement for slot in row} & set(self._slots))
        if busy:
            self.reason = f"worker {busy[0]} has tasks"
            return UNDONE
        return "leave"

    def _leave(self) -> Iterator[Instruction]:
        yield Dismiss(self._slots)

    def failure(self) -> TailraceError:
        """Say that they stay."""
        return MoveError(f"The workers stay: {self.reason}.", "Ask for it again.")
