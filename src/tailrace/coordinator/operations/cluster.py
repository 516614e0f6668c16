"""What operations may know of the query and its workers: a narrow view of the coordinator's brain.

Made by ``OperationRequests``; nothing is changed through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.program.program import Program
    from tailrace.protocol import KeyTable


class ClusterView:
    """The query and its workers, as they are now."""

    def __init__(self, brain: CoordinatorBrain) -> None:
        self._brain = brain

    @property
    def program(self) -> Program:
        """What every worker runs."""
        return self._brain.program

    @property
    def placement(self) -> list[list[int]]:
        """Per stage, per task: the slot."""
        return self._brain.placement

    @property
    def tables(self) -> dict[int, KeyTable]:
        """Per stage whose key groups have moved: who has them now."""
        return self._brain.tables

    @property
    def marks(self) -> dict[int, int]:
        """Per partition the offset below which everything is complete."""
        return self._brain.marks

    @property
    def restarts(self) -> int:
        """How often a worker was replaced."""
        return self._brain.restarts

    @property
    def open_slots(self) -> frozenset[int]:
        """The slots whose workers have opened their tasks."""
        return frozenset(slot for slot, member in self._brain.members.items() if member.open)

    @property
    def waiting_slots(self) -> frozenset[int]:
        """The slots whose workers have just registered and do not take part yet."""
        return frozenset(slot for slot, member in self._brain.members.items() if member.waits)

    @property
    def everyone_open(self) -> bool:
        """Whether all workers that take part have opened their tasks."""
        return all(member.open or member.waits for member in self._brain.members.values())
