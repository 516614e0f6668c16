"""Two tasks at the ends of a move of key groups: the old one lets go of what belongs to them, the new one takes it.

Part of ``key_mover``, which says what the plan is and carries it out or undoes it; here it is taken as far as it can be
in every round. Both tasks stand still when this is done, and nothing of theirs has been changed yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.transport import codec, wire
from tailrace.worker.errors import MoveError
from tailrace.worker.migration.channel_control import EPOCH
from tailrace.worker.migration.key_group_snapshot import own_inbox, pack
from tailrace.worker.migration.state_transfer import Outgoing, Parcels

if TYPE_CHECKING:
    from tailrace.worker.build import Site
    from tailrace.worker.exchange.acks import Acknowledger
    from tailrace.worker.migration.key_plan import Giving, KeyPlan, Taking
    from tailrace.worker.worker_state import WorkerState


class KeyHandover:
    """What goes with key groups from and to the tasks of one worker."""

    def __init__(self, worker: WorkerState, site: Site, acks: Acknowledger) -> None:
        self._worker = worker
        self._site = site
        self._acks = acks
        #: The newest plan that is over, here; what still comes of it is late.
        self._closed = 0
        self._parcels = Parcels()

    def close(self, epoch: int) -> None:
        """A plan is over, and all before it."""
        self._closed = max(self._closed, epoch)
        self._parcels.forget(self._closed)

    def go_on(self, plan: KeyPlan) -> None:
        """Take a plan as far as it can be taken now."""
        for giving in () if plan.failed else plan.giving:
            self._give(giving, plan)
        for taking in () if plan.failed else plan.taking.values():
            self._take(taking, plan)

    def _give(self, giving: Giving, plan: KeyPlan) -> None:
        task = giving.task
        if not giving.frozen:
            if not all(each.paused == plan.epoch for each in own_inbox(task).channels.values()):
                return
            self._freeze(giving)  # else it would first work off all that waits
        if not giving.packed:
            if task.in_flight or not self._acks.settled(task):
                return
            giving.packed = True
            self._pack(giving, plan)
        for row in giving.rows:
            if row.at in giving.parcels:
                slot = self._site.placement[task.stage.id][row.new]
                giving.parcels[row.at].send(self._worker.outgoing, slot, wire.KEYS, (plan.epoch, row.at))
        if not giving.asked and not any(box.values for box in task.boxes):
            giving.asked = True
            for box in task.boxes:
                if box.slot != self._worker.slot:
                    giving.unseen.add(box.channel)
                    self._worker.outgoing.record(box.slot, wire.BEHIND, box.channel, EPOCH.pack(plan.epoch))
        if giving.asked and not giving.unseen and not giving.cleared and not any(giving.parcels.values()):
            giving.cleared = True
            for row in giving.rows:
                self._worker.control_out.append(protocol.Cleared(plan.epoch, plan.stage, row.at))

    def _freeze(self, each: Giving | Taking) -> None:
        each.frozen = True
        each.next_tick_ns, each.task.next_tick_ns = each.task.next_tick_ns, None
        self._worker.freeze(each.task)

    def _pack(self, giving: Giving, plan: KeyPlan) -> None:
        task, now_ns = giving.task, self._worker.clock.now_ns()
        stay = list(own_inbox(task).waiting)
        giving.batches = len(stay)
        if task.closing:
            self._fail(plan, MoveError("The operator has come to its end."))
        try:
            for row in giving.rows:
                stay, go = plan.keys.divide(stay, row.groups)
                data = pack(task, plan.keys, row.groups, go, now_ns)
                if row.at in plan.taking:
                    plan.taking[row.at].parcel = codec.loads(data)
                else:
                    giving.parcels[row.at] = Outgoing(data)
        except Exception as error:  # noqa: BLE001 - a user's key function, or pickling of a user's state
            self._fail(plan, error)
        giving.stays = stay

    def take_part(self, row: int, content: memoryview) -> None:
        """Take in a part of what comes with some groups; it may come before the plan is known here."""
        epoch, key = self._parcels.take(row, content, self._closed)
        if epoch and key is None:
            self.give_up(epoch, MoveError("A part of what goes with the keys was lost.", "The connection broke."))

    def _take(self, taking: Taking, plan: KeyPlan) -> None:
        task, key = taking.task, (plan.epoch, taking.row.at)
        if taking.parcel is None and self._parcels.is_whole(key):
            try:
                taking.parcel = codec.loads(self._parcels.pop(key))
            except Exception as error:  # noqa: BLE001 - unpickling runs a user's code
                self._fail(plan, error)
                return
        if taking.parcel is None or taking.installed:
            return
        if not any(each.frozen and each.task is task for each in plan.taking.values()):
            self._freeze(taking)
        if task.closing:
            self._fail(plan, MoveError("The operator has come to its end."))
        elif not task.in_flight:
            taking.installed = True
            self._worker.control_out.append(protocol.Installed(plan.epoch, plan.stage, taking.row.at))

    def _fail(self, plan: KeyPlan, error: Exception) -> None:
        plan.failed = True
        self.give_up(plan.epoch, error)

    def give_up(self, epoch: int, error: Exception) -> None:
        """Tell the coordinator why a plan cannot be carried out."""
        text = getattr(error, "message", f"{type(error).__name__}: {error}")
        self._worker.control_out.append(protocol.MoveFailed(epoch, text, getattr(error, "hint", "")))
