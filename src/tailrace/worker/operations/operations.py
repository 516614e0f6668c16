"""The operations of one worker: takes the coordinator's orders in, gives the one that is under way its turns.

Made with the worker's deployed half. One operation is under way at a time, which the coordinator sees to; it is begun
by its first order, known by its epoch, and ends when it is carried out here or undone. Orders of an operation that is
over are late and have no effect. What other workers say in band comes by ``ChannelControl``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.program.errors import ProtocolError
from tailrace.worker.execution.scheduler import IDLE_US
from tailrace.worker.operations.key_move import KeyMoveParticipant
from tailrace.worker.operations.policy_switch import PolicySwitchParticipant
from tailrace.worker.operations.task_move import TaskMoveParticipant

if TYPE_CHECKING:
    from tailrace.worker.execution.task import Task
    from tailrace.worker.operations.participant import Order, Participant, Scope


class Operations:
    """What one worker does for operations."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._active: Participant | None = None

    @property
    def active(self) -> bool:
        """Whether an operation is under way here."""
        return self._active is not None

    @property
    def wait_us(self) -> int:
        """How soon the operation wants its next turn, if nothing comes before."""
        return IDLE_US if self._active is None else self._active.wait_us

    # -- orders --------------------------------------------------------------------------------------------------

    def on_order(self, order: Order | protocol.Undo) -> None:
        """Act on what the coordinator says about an operation, which may begin with it."""
        if isinstance(order, protocol.Undo):
            self._undo(order.epoch)
            return
        operation = self._active
        if operation is None or operation.epoch != order.epoch:
            operation = self._begun_by(order)
        if operation is not None:
            operation.on_order(order)
            self._close_if_over(operation)

    def _begun_by(self, order: Order) -> Participant | None:
        """Begin an operation; None where the order is not one that begins any, and so belongs to none known here."""
        scope = self._scope
        if isinstance(order, protocol.Switch):
            return PolicySwitchParticipant(scope, order.epoch)  # over at once, and told to whoever joins as well
        found: Participant | None = None
        if isinstance(order, protocol.Pause):
            found = TaskMoveParticipant(scope, order.epoch)
        elif isinstance(order, protocol.HoldSources | protocol.PauseKeys | protocol.Regroup):
            found = KeyMoveParticipant(scope, order.epoch)
        if found is not None:
            if self._active is not None:
                raise ProtocolError(
                    f"The coordinator began operation {order.epoch} while {self._active.epoch} is under way.",
                    "Use the same version of Tailrace at the driver and on the executors.",
                )
            self._active = found
        return found

    def _undo(self, epoch: int) -> None:
        operation = self._active
        if operation is not None and operation.epoch == epoch:
            operation.undo()
            operation.state = "over"
            self._close_if_over(operation)
        else:
            self._scope.channels.end(epoch)

    def _close_if_over(self, operation: Participant) -> None:
        if operation.over and operation is self._active:
            self._active = None
            self._scope.channels.end(operation.epoch)

    # -- turns ---------------------------------------------------------------------------------------------------

    def progress(self) -> None:
        """Take the operation as far as it can be taken now; called once per round while one is under way."""
        operation = self._active
        if operation is None or operation.failed:
            return
        try:
            self._scope.channels.arrivals.check(operation.epoch)
            operation.progress()
        except Exception as error:  # noqa: BLE001 - a user's snapshot(), open() or restore() may raise anything
            operation.fail(error)

    # -- what other parts of the worker ask ----------------------------------------------------------------------

    @property
    def awaits_older_roots(self) -> bool:
        """Whether the coordinator waits for roots of this worker that are cut the old way."""
        return bool(self._scope.older_roots)

    def told(self, marks: dict[int, int]) -> None:
        """The coordinator knows how far roots are complete."""
        older = self._scope.older_roots
        for partition in [each for each, offset in older.items() if marks.get(each, 0) >= offset]:
            del older[partition]

    def gone(self) -> list[Task]:
        """Tasks that left since the last time: the loop ends the threads they had."""
        gone = list(self._scope.gone)
        self._scope.gone.clear()
        return gone
