"""A worker's part in moving key groups between the tasks of a stage while it runs; ``routing.key_table`` says why so.

1. ``HoldSources``: sources read nothing for a moment, so that everyone knows from which roots on the new cut holds.
2. ``Regroup`` with the groups cut off: senders cut new roots that way. Sources go on, older roots come to their end.
3. ``PauseKeys``: every worker stops sending to the tasks concerned and says so in band (``PAUSED``). The old task, once
   all have said so and no piece of its work is out, stands still, lets its outboxes run empty, makes sure in band that
   all it sent has arrived (``BEHIND``, ``BEHIND_SEEN``), and sends what goes with the groups (``KEYS``) to the new
   task, which stands still from then on, its work in hand finished.
4. ``Regroup`` with the groups at their new tasks: senders sort again what waits for the old ones, the old task drops
   what has gone, the new one takes it in front of what has come since. Or ``Undo``: all go on as before.

Called by the brain with the coordinator's orders and by ``delivery`` with frames; touches the worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.batch import Batch
from tailrace.routing.key_table import floors_of, ways_beyond
from tailrace.transport import wire
from tailrace.worker.build import router_of
from tailrace.worker.errors import MoveError
from tailrace.worker.migration.channel_control import EPOCH
from tailrace.worker.migration.key_group_snapshot import KeyGroups, give_away, own_inbox, split, take_in
from tailrace.worker.migration.key_group_transfer import KeyHandover
from tailrace.worker.migration.key_plan import Giving, KeyPlan, Row, Taking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.sending.outbox import Outbox
    from tailrace.worker.build import Site
    from tailrace.worker.exchange.acks import Acknowledger
    from tailrace.worker.exchange.delivery import Delivery
    from tailrace.worker.exchange.outlet import Outlet
    from tailrace.worker.execution.task import Task
    from tailrace.worker.migration.channel_control import ChannelControl
    from tailrace.worker.worker_state import WorkerState

#: How soon to look again while something of a plan is under way here.
LOOK_US = 200


class KeyMover:
    """The moves of key groups at one worker."""

    def __init__(
        self, worker: WorkerState, site: Site, acks: Acknowledger, delivery: Delivery, ways: ChannelControl
    ) -> None:
        self._worker = worker
        self._site = site
        self._delivery = delivery
        self._ways = ways
        self._plan: KeyPlan | None = None
        #: The epoch for which sources are held, and whether it is yet to be said how far they have read.
        self._held = 0
        self._asked = False
        #: Tasks that stand still while sources are held.
        self._still: list[Task] = []
        self._handover = KeyHandover(worker, site, acks)
        #: Offsets of this worker's partitions below which roots are cut the old way, until those are complete.
        self._ripening: dict[int, int] = {}

    @property
    def active(self) -> bool:
        """Whether something is to be done here as soon as it can be."""
        plan = self._plan
        return self._asked or (plan is not None and not plan.waits)

    @property
    def ripening(self) -> bool:
        """Whether the coordinator waits for roots of this worker that are cut the old way."""
        return bool(self._ripening)

    def told(self, marks: dict[int, int]) -> None:
        """The coordinator knows how far roots are complete."""
        self._ripening = {part: offset for part, offset in self._ripening.items() if marks.get(part, 0) < offset}

    # -- orders --------------------------------------------------------------------------------------------------

    def on_order(self, message: protocol.HoldSources | protocol.PauseKeys | protocol.Regroup) -> None:
        """Act on what the coordinator says."""
        match message:
            case protocol.HoldSources():
                self._hold(message)
            case protocol.PauseKeys():
                self._pause(message)
            case protocol.Regroup():
                self._regroup(message)

    def _hold(self, message: protocol.HoldSources) -> None:
        """Read nothing until told to go on."""
        self._held, self._asked = message.epoch, True
        for _, source in self._worker.sources:
            source.paused = True
        if message.restarted:
            self._still = [task for task in self._worker.tasks if task.stage.id == message.stage]
        for task in self._still:
            self._worker.freeze(task)

    def _pause(self, message: protocol.PauseKeys) -> None:
        """Begin to move groups."""
        keys = KeyGroups(self._worker.program, message.stage)
        rows = [Row(at, old, new, frozenset(groups)) for at, (old, new, groups) in enumerate(message.moves)]
        here = {task.index: task for task in self._worker.tasks if task.stage.id == message.stage}
        giving = [
            Giving(here[old], [row for row in rows if row.old == old])
            for old in sorted({row.old for row in rows} & here.keys())
        ]
        taking = {row.at: Taking(here[row.new], row) for row in rows if row.new in here}
        self._plan = plan = KeyPlan(message.epoch, message.stage, keys, rows, giving, taking)
        tasks = {row.old for row in rows} | {row.new for row in rows}
        for outlet, box in self._boxes(message.stage):
            if box.task in tasks:
                self._ways.hold(box)
                plan.paused.append(box)
                self._ways.say_paused(box, plan.epoch)
            for row in rows:
                if outlet.boxes[row.new].end_sent and not outlet.boxes[row.old].end_sent:
                    self._handover.give_up(plan.epoch, MoveError("The input of the operator comes to its end."))
        self._ways.off_the_link()

    def _regroup(self, message: protocol.Regroup) -> None:
        """Go by another table: a new cut, or, where groups of a plan are at their new tasks, the end of that plan."""
        plan = self._plan
        self._site.tables[message.stage] = message.table
        if plan is not None and plan.epoch == message.epoch:
            self._switch(plan)
        for task in self._worker.tasks:
            if task.stage.id == message.stage and task.deduplicator is not None:
                task.deduplicator.floors = floors_of(message.table)
        self._stir()
        mine = {partition for _, source in self._worker.sources for partition in source.readers}
        self._ripening = {part: offset for part, offset in message.table.since.items() if part in mine}
        for task, outlet in self._senders(message.stage):
            edge = self._worker.program.plan.edges[outlet.edge]
            outlet.switch(router_of(self._worker.program, self._site, edge, task.index))
            outlet.branch(ways_beyond(message.table, len(outlet.boxes)))
        self._worker.control_out.append(protocol.Relocated(message.epoch))

    def undo(self, epoch: int) -> None:
        """A plan is given up: all groups stay where they are."""
        plan = self._plan
        if self._held == epoch:
            self.go_on()
        if plan is not None and plan.epoch == epoch:
            self._resume(plan)
        self._handover.close(epoch)

    def go_on(self) -> None:
        """Everyone goes by the new cut, or it was given up: sources may read."""
        self._held, self._asked = 0, False
        self._stir()
        for _, source in self._worker.sources:
            source.paused = False

    def _stir(self) -> None:
        """Let the tasks go on that stood still while sources were held."""
        for task in self._still:
            self._worker.thaw(task)
        self._still = []

    def _switch(self, plan: KeyPlan) -> None:
        for _, outlet in self._senders(plan.stage):
            self._sort_anew(outlet, plan)
        for giving in plan.giving:
            give_away(giving.task, plan.keys, giving.groups)
            for channel in own_inbox(giving.task).keep(giving.stays, giving.batches):
                self._delivery.credit(channel)
        now_ns = self._worker.clock.now_ns()
        for taking in plan.taking.values():
            if taking.parcel is not None:
                take_in(taking.task, plan.keys, taking.parcel, now_ns)
        self._resume(plan)
        self._handover.close(plan.epoch)

    def _sort_anew(self, outlet: Outlet, plan: KeyPlan) -> None:
        """Let what waits for an old task and belongs to moved groups wait for the new one."""
        for row in plan.rows:
            old, new = outlet.boxes[row.old], outlet.boxes[row.new]
            waiting = Batch(old.values, old.sizes if old.heads else None, old.heads)
            stays, goes = split(waiting, plan.keys.picks(outlet.edge, row.groups))
            if goes is not None:
                new.since_ns = min(new.since_ns, old.since_ns) if new.values else old.since_ns
                new.put(goes)
                old.clear()
                if stays is not None:
                    old.put(stays)

    def _resume(self, plan: KeyPlan) -> None:
        """Let everything that stands still for a plan go on."""
        self._plan = None
        for box in plan.paused:
            self._ways.release(box)
        standing: list[Giving | Taking] = [*plan.giving, *plan.taking.values()]
        for each in standing:
            if each.frozen:
                each.task.next_tick_ns = each.next_tick_ns
                self._worker.thaw(each.task)
                each.frozen = False
        self._ways.off_the_link()

    # -- ways ----------------------------------------------------------------------------------------------------

    def _senders(self, stage: int) -> Iterator[tuple[Task, Outlet]]:
        for task in self._worker.tasks:
            for outlet in task.outlets.values():
                if self._ways.target(outlet) == stage:
                    yield task, outlet

    def _boxes(self, stage: int) -> Iterator[tuple[Outlet, Outbox]]:
        return ((outlet, box) for _, outlet in self._senders(stage) for box in outlet.boxes)

    def say_again(self, box: Outbox) -> None:
        """After a broken connection, behind what was sent: say again what may have been lost with it."""
        plan = self._plan
        if plan is None:
            return
        if box in plan.paused:
            self._ways.say_paused(box, plan.epoch)
        if any(box.channel in each.unseen for each in plan.giving):
            self._worker.outgoing.record(box.slot, wire.BEHIND, box.channel, EPOCH.pack(plan.epoch))

    def on_frame(self, kind: int, number: int, content: bytes, slot: int) -> None:
        """Take in what another worker says about key groups that move."""
        if kind == wire.KEYS:
            self._handover.take_part(number, memoryview(content))
        elif kind == wire.BEHIND:
            self._worker.outgoing.record(slot, wire.BEHIND_SEEN, number, bytes(content))
        elif self._plan is not None and EPOCH.unpack(content)[0] == self._plan.epoch:
            for each in self._plan.giving:
                each.unseen.discard(number)

    # -- going on ------------------------------------------------------------------------------------------------

    def progress(self) -> None:
        """Take everything as far as it can be taken now; called once per round while something is to be done."""
        if self._asked and not any(task.in_flight for task, _ in self._worker.sources):
            self._say_held()
        if self._plan is not None:
            self._handover.go_on(self._plan)

    def _say_held(self) -> None:
        offsets: dict[int, int] = {}
        incs: dict[int, int] = {}
        for _, source in self._worker.sources:
            offsets |= source.ledger.next_offsets()
            incs |= dict.fromkeys(source.readers, source.ledger.base_inc)
        for task in self._still:
            for partition, offset in task.deduplicator.newest().items() if task.deduplicator is not None else ():
                offsets[partition] = max(offset, offsets.get(partition, 0))
        self._worker.control_out.append(protocol.Held(self._held, offsets, incs))
        self._asked = False
