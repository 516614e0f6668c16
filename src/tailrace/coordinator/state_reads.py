"""Reads of the state of a running query: each goes to the worker that has the key, and again where that has changed.

Part of the coordinator's brain, and pure like it. An answer counts if nothing moved while it was under way: no
operation began, and the worker is the one that was asked, in the same execution. Otherwise it is asked for again, once
the operation or the recovery is over; so a key that is on its way is never taken for one without a state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace import protocol

if TYPE_CHECKING:
    from tailrace.coordinator.brain import CoordinatorBrain

#: Slot and attempt of a worker, the execution, and the number of the last operation.
Moment = tuple[int, int, int, int]


@dataclass(eq=False)
class StateRead:
    """One read, from when it is asked for until it is answered."""

    stage: int
    operator: str
    #: The key group whose task is asked; -1 where it is ``task``, whichever keys it has.
    group: int = -1
    task: int = -1
    key: bytes = b""
    limit: int = 0
    #: When it was asked last; None if it has to be asked yet.
    asked: Moment | None = None
    answer: protocol.StateValues | None = None


class StateReads:
    """The reads of one query that are under way."""

    def __init__(self, brain: CoordinatorBrain) -> None:
        self._brain = brain
        self._serial = 0
        self._open: dict[int, StateRead] = {}

    def begin(self, read: StateRead) -> None:
        """Ask for a state; ``read.answer`` will have it."""
        self._serial += 1
        self._open[self._serial] = read
        self._ask(self._serial, read)

    def give_up(self, read: StateRead) -> None:
        """Nobody waits for it any more."""
        self._open = {serial: each for serial, each in self._open.items() if each is not read}

    def look(self) -> None:
        """Ask again what was asked of a worker that no longer has it, or could not be asked."""
        stale = [(serial, read) for serial, read in self._open.items() if read.asked != self._moment(read)]
        for serial, read in stale:  # under another number: what is still said to the old one counts no more
            del self._open[serial]
            self.begin(read)

    def heard(self, message: protocol.StateValues) -> None:
        """A worker has answered."""
        read = self._open.get(message.serial)
        if read is None:
            return
        if message.here and read.asked == self._moment(read):
            del self._open[message.serial]
            read.answer = message
        else:
            read.asked = None  # asked again with the next tick

    def _ask(self, serial: int, read: StateRead) -> None:
        brain = self._brain
        read.asked = self._moment(read)
        if read.asked is not None:
            order = protocol.AskState(serial, read.stage, self._task(read), read.operator, read.key, read.limit)
            brain.tell(brain.members[read.asked[0]], order)

    def _task(self, read: StateRead) -> int:
        return read.task if read.group < 0 else self._brain.operations.key_tasks(read.stage)[read.group]

    def _moment(self, read: StateRead) -> Moment | None:
        """What an answer would be of now; None while something moves or is lost."""
        brain = self._brain
        if brain.state != "running" or not brain.operations.idle:
            return None
        slot = brain.placement[read.stage][self._task(read)]
        member = brain.members[slot]
        if not member.alive or not member.open:
            return None
        execution = 0 if brain.checkpoints is None else brain.checkpoints.execution
        return slot, member.attempt, execution, brain.operations.machine.epoch
