"""A worker's part in moving key groups between the tasks of a stage while it runs; ``routing.key_table`` says why so.

1. ``HoldSources``: sources read nothing for a moment, so that everyone knows from which roots on the new cut holds.
2. ``Regroup`` with the groups cut off: senders cut new roots that way. Sources go on, older roots come to their end.
3. ``PauseKeys``: every worker stops sending to the tasks concerned and says so in band (``PAUSED``). The old task, once
   all have said so and no piece of its work is out, stands still, lets its outboxes run empty, makes sure in band that
   all it sent has arrived (``BEHIND``, ``BEHIND_SEEN``), and sends what goes with the groups (``KEYS``) to the new
   task, which stands still from then on, its work in hand finished.
4. ``Regroup`` with the groups at their new tasks: senders sort anew what waits for the old ones, the old task drops
   what has gone, the new one takes it in front of what has come since. Or ``Undo``: all go on as before.

Called by the brain with the coordinator's orders and by ``delivery`` with frames; touches the floor.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.batch import Batch
from tailrace.routing.key_table import floors_of, ways_beyond
from tailrace.transport import codec, wire

from .arriving import PART_HEAD, Parcels
from .build import router_of
from .errors import MoveError
from .key_parcel import KeyGroups, give_away, pack, split, take_in
from .key_plan import Giving, KeyPlan, Row, Taking
from .mover import PART_BYTES, PARTS_PER_ROUND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.sending.outbox import Outbox

    from .acks import Acknowledger
    from .build import Site
    from .delivery import Delivery
    from .floor import Floor
    from .outlet import Outlet
    from .task import Task

_EPOCH = struct.Struct("<I")
#: How soon to look again while something of a plan is under way here.
LOOK_US = 200


class KeyMover:
    """The moves of key groups at one worker."""

    def __init__(self, floor: Floor, site: Site, acks: Acknowledger, delivery: Delivery) -> None:
        self._floor = floor
        self._site = site
        self._acks = acks
        self._delivery = delivery
        self._plan: KeyPlan | None = None
        #: The epoch for which sources are held and it is yet to be said how far they have read.
        self._holding = 0
        #: Tasks that stand still while sources are held.
        self._still: list[Task] = []
        #: The newest plan that is over, here; what still comes of it is late.
        self._closed = 0
        self._parcels = Parcels()
        #: Offsets of this worker's partitions below which roots are cut the old way, until those are complete.
        self._ripening: dict[int, int] = {}

    @property
    def active(self) -> bool:
        """Whether something is to be done here as soon as it can be."""
        plan = self._plan
        return self._holding > 0 or (plan is not None and not plan.waits)

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
        self._holding = message.epoch
        for _, source in self._floor.sources:
            source.paused = True
        if message.restarted:
            self._still = [task for task in self._floor.tasks if task.stage.id == message.stage]
        for task in self._still:
            self._floor.freeze(task)

    def _pause(self, message: protocol.PauseKeys) -> None:
        """Begin to move groups."""
        keys = KeyGroups(self._floor.program, message.stage)
        rows = [Row(at, old, new, frozenset(groups)) for at, (old, new, groups) in enumerate(message.moves)]
        here = {task.index: task for task in self._floor.tasks if task.stage.id == message.stage}
        giving = [
            Giving(here[old], [row for row in rows if row.old == old])
            for old in sorted({row.old for row in rows} & here.keys())
        ]
        taking = {row.at: Taking(here[row.new], row) for row in rows if row.new in here}
        self._plan = plan = KeyPlan(message.epoch, message.stage, keys, rows, giving, taking)
        tasks = {row.old for row in rows} | {row.new for row in rows}
        for outlet, box in self._ways():
            if box.task in tasks:
                box.paused = True
                self._floor.dirty.pop(box, None)
                plan.paused.append(box)
                self._say_paused(box)
            for row in rows:
                if outlet.boxes[row.new].end_sent and not outlet.boxes[row.old].end_sent:
                    self._give_up(plan.epoch, MoveError("The input of the operator comes to its end."))
        self._off_the_link()

    def _regroup(self, message: protocol.Regroup) -> None:
        """Go by another table: a new cut, or, where groups of a plan are at their new tasks, the end of that plan."""
        plan = self._plan
        self._site.tables[message.stage] = message.table
        if plan is not None and plan.epoch == message.epoch:
            self._switch(plan)
        for task in self._floor.tasks:
            if task.stage.id == message.stage and task.guard is not None:
                task.guard.floors = floors_of(message.table)
        self._stir()
        mine = {partition for _, source in self._floor.sources for partition in source.readers}
        self._ripening = {part: offset for part, offset in message.table.since.items() if part in mine}
        for task, outlet in self._senders(message.stage):
            edge = self._floor.program.plan.edges[outlet.edge]
            outlet.switch(router_of(self._floor.program, self._site, edge, task.index))
            outlet.branch(ways_beyond(message.table))
        self._floor.control_out.append(protocol.Relocated(message.epoch))

    def undo(self, epoch: int) -> None:
        """A plan is given up: all groups stay where they are."""
        plan = self._plan
        if plan is None:
            self.go_on()
        if plan is not None and plan.epoch == epoch:
            self._resume(plan)
        self._closed = max(self._closed, epoch)
        self._parcels.forget(self._closed)

    def go_on(self) -> None:
        """Everyone goes by the new cut, or it was given up: sources may read."""
        self._holding = 0
        self._stir()
        for _, source in self._floor.sources:
            source.paused = False

    def _stir(self) -> None:
        """Let the tasks go on that stood still while sources were held."""
        for task in self._still:
            self._floor.thaw(task)
        self._still = []

    def _switch(self, plan: KeyPlan) -> None:
        for _, outlet in self._senders(plan.stage):
            self._sort_anew(outlet, plan)
        for giving in plan.giving:
            give_away(giving.task, plan.keys, giving.groups)
            for channel in giving.task.inbox.keep(giving.stays, giving.batches):  # type: ignore[union-attr]
                self._delivery.credit(channel)
        now_ns = self._floor.clock.now_ns()
        for taking in plan.taking.values():
            if taking.parcel is not None:
                take_in(taking.task, plan.keys, taking.parcel, now_ns)
        self._resume(plan)
        self._closed = plan.epoch
        self._parcels.forget(plan.epoch)

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
            box.paused = False
            if box.values or box.ended:
                self._floor.dirty[box] = None
        for each in (*plan.giving, *plan.taking.values()):
            if each.frozen:
                each.task.next_tick_ns = each.next_tick_ns
                self._floor.thaw(each.task)
                each.frozen = False
        self._off_the_link()

    # -- ways ----------------------------------------------------------------------------------------------------

    def _senders(self, stage: int) -> Iterator[tuple[Task, Outlet]]:
        for task in self._floor.tasks:
            for outlet in task.outlets.values():
                if self._floor.program.plan.edges[outlet.edge].dst_stage == stage:
                    yield task, outlet

    def _ways(self) -> Iterator[tuple[Outlet, Outbox]]:
        stage = -1 if self._plan is None else self._plan.stage
        return ((outlet, box) for _, outlet in self._senders(stage) for box in outlet.boxes)

    def _off_the_link(self) -> None:
        if self._delivery.uplink is not None:
            self._delivery.uplink.restart()

    def _say_paused(self, box: Outbox) -> None:
        epoch = 0 if self._plan is None else self._plan.epoch
        if box.slot == self._floor.slot:
            self._floor.inbound[box.channel][1].paused = epoch
        else:
            self._floor.post.record(box.slot, wire.PAUSED, box.channel, _EPOCH.pack(epoch))

    def say_again(self, box: Outbox) -> None:
        """After a broken connection, behind what was sent: say again what may have been lost with it."""
        plan = self._plan
        if plan is None:
            return
        if box in plan.paused:
            self._say_paused(box)
        if any(box.channel in each.unseen for each in plan.giving):
            self._floor.post.record(box.slot, wire.BEHIND, box.channel, _EPOCH.pack(plan.epoch))

    def on_frame(self, kind: int, number: int, content: bytes, slot: int) -> None:
        """Take in what another worker says about key groups that move."""
        if kind == wire.KEYS:
            self._take_part(number, memoryview(content))
        elif kind == wire.BEHIND:
            self._floor.post.record(slot, wire.BEHIND_SEEN, number, bytes(content))
        elif self._plan is not None and _EPOCH.unpack(content)[0] == self._plan.epoch:
            for each in self._plan.giving:
                each.unseen.discard(number)

    # -- the old task --------------------------------------------------------------------------------------------

    def progress(self) -> None:
        """Take everything as far as it can be taken now; called once per round while something is to be done."""
        if self._holding and not any(task.in_flight for task, _ in self._floor.sources):
            self._say_held()
        plan = self._plan
        for giving in plan.giving if plan is not None else ():
            self._give(giving, plan)  # type: ignore[arg-type]
        for taking in plan.taking.values() if plan is not None else ():
            self._take(taking, plan)  # type: ignore[arg-type]

    def _say_held(self) -> None:
        offsets: dict[int, int] = {}
        incs: dict[int, int] = {}
        for _, source in self._floor.sources:
            offsets |= source.ledger.next_offsets()
            incs |= dict.fromkeys(source.readers, source.ledger.base_inc)
        for task in self._still:
            for partition, offset in task.guard.newest().items() if task.guard is not None else ():
                offsets[partition] = max(offset, offsets.get(partition, 0))
        self._floor.control_out.append(protocol.Held(self._holding, offsets, incs))
        self._holding = 0

    def _give(self, giving: Giving, plan: KeyPlan) -> None:
        task = giving.task
        if not giving.frozen:
            paused = all(each.paused == plan.epoch for each in task.inbox.channels.values())  # type: ignore[union-attr]
            if task.in_flight or not paused or not self._acks.settled(task):
                return
            if task.closing:
                self._give_up(plan.epoch, MoveError("The operator has come to its end."))
            self._freeze(giving)
            self._pack(giving, plan)
        for row in giving.rows:
            self._send_parts(giving, row, plan.epoch)
        if not giving.asked and not any(box.values for box in task.boxes):
            giving.asked = True
            for box in task.boxes:
                if box.slot != self._floor.slot:
                    giving.unseen.add(box.channel)
                    self._floor.post.record(box.slot, wire.BEHIND, box.channel, _EPOCH.pack(plan.epoch))
        if giving.asked and not giving.unseen and not giving.cleared and not any(giving.parts.values()):
            giving.cleared = True
            for row in giving.rows:
                self._floor.control_out.append(protocol.Cleared(plan.epoch, plan.stage, row.at))

    def _freeze(self, each: Giving | Taking) -> None:
        each.frozen = True
        each.next_tick_ns, each.task.next_tick_ns = each.task.next_tick_ns, None
        self._floor.freeze(each.task)

    def _pack(self, giving: Giving, plan: KeyPlan) -> None:
        task, now_ns = giving.task, self._floor.clock.now_ns()
        stay = list(task.inbox.waiting)  # type: ignore[union-attr]
        giving.batches = len(stay)
        try:
            for row in giving.rows:
                stay, go = plan.keys.divide(stay, row.groups)
                data = pack(task, plan.keys, row.groups, go, now_ns)
                if row.at in plan.taking:
                    plan.taking[row.at].parcel = codec.loads(data)
                else:
                    giving.parts[row.at].extend(data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES))
        except Exception as error:  # noqa: BLE001 - a user's key function, or pickling of a user's state
            self._give_up(plan.epoch, error)
        giving.stays = stay

    def _send_parts(self, giving: Giving, row: Row, epoch: int) -> None:
        post, parts = self._floor.post, giving.parts[row.at]
        slot = self._site.placement[giving.task.stage.id][row.new]
        for _ in range(PARTS_PER_ROUND):
            if not parts or not post.accepts(slot):
                return
            part = parts.popleft()
            head = PART_HEAD.pack(epoch, giving.parts_sent[row.at], not parts)
            post.record(slot, wire.KEYS, row.at, head + part)
            giving.parts_sent[row.at] += 1

    # -- the new task --------------------------------------------------------------------------------------------

    def _take_part(self, row: int, content: memoryview) -> None:
        epoch, key = self._parcels.take(row, content, self._closed)
        if epoch and key is None:
            self._give_up(epoch, MoveError("A part of what goes with the keys was lost.", "The connection broke."))

    def _take(self, taking: Taking, plan: KeyPlan) -> None:
        task, key = taking.task, (plan.epoch, taking.row.at)
        if taking.parcel is None and self._parcels.is_whole(key):
            try:
                taking.parcel = codec.loads(self._parcels.pop(key))
            except Exception as error:  # noqa: BLE001 - unpickling runs a user's code
                self._give_up(plan.epoch, error)
                return
        if taking.parcel is None or taking.installed:
            return
        if not any(each.frozen and each.task is task for each in plan.taking.values()):
            self._freeze(taking)
        if task.closing:
            self._give_up(plan.epoch, MoveError("The operator has come to its end."))
        elif not task.in_flight:
            taking.installed = True
            self._floor.control_out.append(protocol.Installed(plan.epoch, plan.stage, taking.row.at))

    def _give_up(self, epoch: int, error: Exception) -> None:
        text = getattr(error, "message", f"{type(error).__name__}: {error}")
        self._floor.control_out.append(protocol.MoveFailed(epoch, text, getattr(error, "hint", "")))
