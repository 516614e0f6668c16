"""Two tasks at the ends of a move of key groups: the old one lets go of what belongs to them, the new one takes it.

Part of ``key_move``, which says what moves and carries it out or undoes it; here it is taken as far as it can be in
every round. Both tasks stand still when this is done, and nothing of theirs has been changed yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.program.errors import MoveError
from tailrace.worker.operations.state_transfer import Departure
from tailrace.worker.snapshots.key_group_snapshot import own_inbox, pack, unpack

if TYPE_CHECKING:
    from tailrace.worker.operations.key_plan import Giving, Taking
    from tailrace.worker.operations.participant import Scope
    from tailrace.worker.snapshots.key_group_snapshot import KeyGroups


class KeyTransfer:
    """What goes with key groups from and to the tasks of one worker, in one operation."""

    def __init__(
        self, scope: Scope, epoch: int, stage: int, keys: KeyGroups, giving: list[Giving], taking: dict[int, Taking]
    ) -> None:
        self._scope = scope
        self._epoch = epoch
        self._stage = stage
        self._keys = keys
        self.giving = giving
        self.taking = taking

    @property
    def done(self) -> bool:
        """Whether this worker has done its part and waits for the coordinator."""
        given = all(each.state == "cleared" for each in self.giving)
        return given and all(each.state == "installed" for each in self.taking.values())

    @property
    def sending(self) -> bool:
        """Whether parts of what moves wait to be sent."""
        return any(departure for each in self.giving for departure in each.departures.values())

    def progress(self) -> None:
        """Take every task as far as it can be taken now."""
        for giving in self.giving:
            self._give(giving)
        whole = self._scope.channels.arrivals.whole(self._epoch)
        for at, taking in self.taking.items():
            if at in whole:
                taking.parcel = unpack(taking.task, self._scope.channels.arrivals.pop((self._epoch, at)))
            self._take(taking)

    def resume(self) -> None:
        """Let the tasks go on that stand still."""
        for giving in self.giving:
            if giving.state != "runs":
                self._thaw(giving)
        for taking in self.taking.values():
            if taking.froze:
                self._thaw(taking)

    # -- the old task --------------------------------------------------------------------------------------------

    def _give(self, giving: Giving) -> None:
        task, scope = giving.task, self._scope
        if giving.state == "runs":
            if not all(each.paused == self._epoch for each in own_inbox(task).channels.values()):
                return
            giving.state = "still"
            self._freeze(giving)  # else it would first work off all that waits
        if giving.state == "still":
            if task.in_flight or not scope.acks.settled(task):
                return
            giving.state = "packed"
            self._pack(giving)
        for row in giving.rows:
            if row.at in giving.departures:
                slot = scope.site.placement[self._stage][row.new]
                giving.departures[row.at].send(scope.worker.outgoing, slot, (self._epoch, row.at))
        if giving.state == "packed" and not any(box.values for box in task.boxes):
            giving.state = "asked"
            for box in task.boxes:
                scope.channels.ask_behind(box, self._epoch)
        if giving.state == "asked" and scope.channels.seen(task.boxes) and not any(giving.departures.values()):
            giving.state = "cleared"
            for row in giving.rows:
                scope.worker.control_out.append(protocol.Cleared(self._epoch, row.at))

    def _pack(self, giving: Giving) -> None:
        task, now_ns = giving.task, self._scope.worker.clock.now_ns()
        if task.closing:
            raise MoveError("The operator has come to its end.")
        stay = list(own_inbox(task).waiting)
        giving.batches = len(stay)
        for row in giving.rows:
            stay, go = self._keys.divide(stay, row.groups)
            data = pack(task, row.groups, go, now_ns)
            if row.at in self.taking:
                self.taking[row.at].parcel = unpack(self.taking[row.at].task, data)
            else:
                giving.departures[row.at] = Departure(data)
        giving.stays = stay

    # -- the new task --------------------------------------------------------------------------------------------

    def _take(self, taking: Taking) -> None:
        task = taking.task
        if taking.parcel is None or taking.state == "installed":
            return
        if taking.state == "runs":
            taking.state = "still"
            if not any(each.froze and each.task is task for each in self.taking.values()):
                taking.froze = True
                self._freeze(taking)
        if task.closing:
            raise MoveError("The operator has come to its end.")
        if not task.in_flight:
            taking.state = "installed"
            self._scope.worker.control_out.append(protocol.Installed(self._epoch, taking.row.at))

    def _freeze(self, each: Giving | Taking) -> None:
        each.next_tick_ns, each.task.next_tick_ns = each.task.next_tick_ns, None
        self._scope.worker.freeze(each.task)

    def _thaw(self, each: Giving | Taking) -> None:
        each.task.next_tick_ns = each.next_tick_ns
        self._scope.worker.thaw(each.task)
