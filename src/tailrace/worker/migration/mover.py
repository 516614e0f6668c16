"""A worker's part in moving tasks while they run: pause the ways to them, hand them over, take them in, go on.

A plan of moves has an epoch. In it each worker

1. stops sending to the tasks that move, and says so in band on every such channel (``PAUSED``);
2. as the old place of a task: once every sender has said so gives it no more turns; once no piece of its work is out,
   says in band on every channel out of it where the rest comes from (``MOVED``, answered by ``SEEN``), and sends the
   task, its queues included, to the new place (``STATE``);
3. as the new place: builds and opens the task, and lets it wait;
4. when the coordinator says ``Relocate``: sends to the new place, lets the old task go and the new one run. When it
   says ``Undo``: goes on as before.

So nothing is under way to or from a task when it changes its place, and order holds on every channel. Counts of a
channel begin again with each move, under a new *epoch*, so that a late credit of the old place is known for what it is.
Called by the brain with the coordinator's orders and by ``delivery`` with frames; touches the worker.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.transport import wire
from tailrace.worker.blame import call_error
from tailrace.worker.errors import MoveError
from tailrace.worker.execution.steps import SinkStep
from tailrace.worker.migration.channel_control import EPOCH, MOVED
from tailrace.worker.migration.move_plan import Leaving, Move, MovePlan, channel_epoch_of
from tailrace.worker.migration.state_transfer import Outgoing, Parcels
from tailrace.worker.migration.task_restore import rebuilt
from tailrace.worker.migration.task_snapshot import pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.sending.outbox import Outbox
    from tailrace.worker.build import Site
    from tailrace.worker.exchange.acks import Acknowledger
    from tailrace.worker.execution.task import Task
    from tailrace.worker.migration.channel_control import ChannelControl
    from tailrace.worker.worker_state import WorkerState

_NS_PER_S = 1_000_000_000


class Mover:
    """The moves of one worker's tasks."""

    def __init__(
        self,
        worker: WorkerState,
        site: Site,
        acks: Acknowledger,
        ways: ChannelControl,
        changed: Callable[[], None],
    ) -> None:
        self._worker = worker
        self._site = site
        self._acks = acks
        self._ways = ways
        self._changed = changed
        self._plan: MovePlan | None = None
        self._parcels = Parcels()
        #: Tasks that are gone, until the loop has ended their threads.
        self.gone: deque[Task] = deque()

    @property
    def active(self) -> bool:
        """Whether a plan is under way here."""
        return self._plan is not None

    @property
    def sending(self) -> bool:
        """Whether parts of a task wait to be sent."""
        return self._plan is not None and any(each.parcel for each in self._plan.leaving)

    # -- orders --------------------------------------------------------------------------------------------------

    def pause(self, message: protocol.Pause) -> None:
        """Begin a plan."""
        moves = {(row[0], row[1]): Move(*row) for row in message.moves}
        leaving = [
            Leaving(place, move, task)
            for place, move in enumerate(moves.values())
            for task in self._worker.tasks
            if move.old == self._worker.slot and (task.stage.id, task.index) == (move.stage, move.task)
        ]
        self._plan = plan = MovePlan(message.epoch, moves, leaving, [])
        for outlet, box in self._ways.all():
            move = moves.get((self._ways.target(outlet), box.task))
            if move is not None:
                self._ways.hold(box)
                plan.paused.append((box, move.new))
                self._ways.say_paused(box, plan.epoch)
        self._ways.off_the_link()
        for each in leaving:
            if each.task.source is not None:
                each.task.source.paused = True
            if each.task.group is not None:
                self._give_up(plan.epoch, MoveError(f"The tasks of {each.task.name!r} share an inbox by now."))
        for key in self._parcels.whole():
            self._install(key)

    def switch(self, message: protocol.Relocate) -> None:
        """Every task of the plan is at its new place and everything sent before is there: go on that way."""
        plan, worker = self._plan, self._worker
        if plan is None or plan.epoch != message.epoch:
            return
        channel_epoch = channel_epoch_of(plan.epoch)
        for move in plan.moves.values():
            self._site.placement[move.stage][move.task] = move.new
        for box, slot in plan.paused:
            box.slot = slot
            box.reset(channel_epoch)
            self._ways.release(box)
        for each in plan.leaving:
            worker.remove(each.task)
            self._let_go(each.task)
        for task in plan.arrived:
            for box in task.boxes:
                box.paused = False
            every_s = task.chain.tick_every_s
            if every_s is not None and not task.closed:
                task.next_tick_ns = worker.clock.now_ns() + int(every_s * _NS_PER_S)
            worker.thaw(task)
        self._ways.reroute({move.stage for move in plan.moves.values()})
        self._end(plan.epoch)
        worker.control_out.append(protocol.Relocated(message.epoch))

    def go_on(self) -> None:
        """Everyone has switched: acks find the sources that moved, so they may read."""
        for _, source in self._worker.sources:
            source.paused = False

    def undo(self, message: protocol.Undo) -> None:
        """The plan is given up: everything goes on at its old place."""
        plan = self._plan
        self._ways.closed = max(self._ways.closed, message.epoch)
        if plan is None or plan.epoch != message.epoch:
            self._parcels.forget(message.epoch)
            return
        for each in plan.leaving:
            self._resume(each, plan)
        for box, _ in plan.paused:
            self._ways.release(box)
        for task in plan.arrived:
            self._worker.remove(task)
            self._let_go(task)
        self._ways.undo(channel_epoch_of(plan.epoch))
        self._end(plan.epoch)

    def _end(self, epoch: int) -> None:
        self._ways.end(epoch)
        self._plan = None
        self._parcels.forget(epoch)
        self._acks.find_sources(self._site.placement)
        self._ways.off_the_link()
        self._changed()

    # -- after a broken connection -----------------------------------------------------------------------------

    def say_before(self, box: Outbox) -> None:
        """After a broken connection, before the count of what was sent: since when it counts, after an undone move."""
        if box.channel_epoch % 2:
            self._ways.say_moved(box, box.channel_epoch, self._worker.slot)

    def say_again(self, box: Outbox) -> None:
        """After a broken connection, behind what was sent: say again what may have been lost with it."""
        if not box.paused or self._plan is None:
            return
        for each in self._plan.leaving:
            if box.channel in each.unseen:
                self._ways.say_moved(box, channel_epoch_of(self._plan.epoch), each.move.new)
                return
        if any(box is paused for paused, _ in self._plan.paused):
            self._ways.say_paused(box, self._plan.epoch)

    # -- frames --------------------------------------------------------------------------------------------------

    def on_frame(self, kind: int, number: int, content: bytes, slot: int) -> None:
        """Take in what another worker says about moves."""
        if kind == wire.STATE:
            self._take_part(number, memoryview(content))
        elif kind == wire.SEEN:
            channel_epoch = EPOCH.unpack(content)[0]
            for each in self._plan.leaving if self._plan is not None else ():
                if channel_epoch == channel_epoch_of(self._plan.epoch):  # type: ignore[union-attr]
                    each.unseen.discard(number)
        elif (found := self._worker.inbound.get(number)) is not None:
            if kind == wire.MOVED:
                channel_epoch, new_slot = MOVED.unpack(content)
                self._ways.divert(found[1], channel_epoch, new_slot, slot)
            elif (epoch := EPOCH.unpack(content)[0]) > self._ways.closed:
                found[1].paused = epoch

    # -- the old place -------------------------------------------------------------------------------------------

    def progress(self) -> None:
        """Take every task that leaves as far as it can be taken now; called once per round while a plan is active."""
        plan = self._plan
        if plan is None:
            return
        for each in plan.leaving:
            if not each.still and self._may_stand_still(each.task, plan.epoch):
                # Pieces that are out come back; what waits is worked off at the new place.
                each.still = True
                self._worker.freeze(each.task)
            if each.still and not each.frozen and not each.task.in_flight and self._acks.settled(each.task):
                self._freeze(each, plan)
            if each.parcel:
                each.parcel.send(self._worker.outgoing, each.move.new, wire.STATE, (plan.epoch, each.place))
            if each.parcel is not None and not each.parcel and not each.unseen and not each.cleared:
                each.cleared = True
                self._worker.control_out.append(protocol.Cleared(plan.epoch, each.move.stage, each.move.task))

    def _may_stand_still(self, task: Task, epoch: int) -> bool:
        if task.source is not None:
            return not task.in_flight and not len(task.source.ledger)
        return task.inbox is not None and all(each.paused == epoch for each in task.inbox.channels.values())

    def _freeze(self, each: Leaving, plan: MovePlan) -> None:
        """Let go of a task that stands still, with everything said on the ways out of it."""
        each.frozen = True
        task, channel_epoch = each.task, channel_epoch_of(plan.epoch)
        each.next_tick_ns, task.next_tick_ns = task.next_tick_ns, None
        for outlet in task.outlets.values():
            for box in outlet.boxes:
                if (self._ways.target(outlet), box.task) in plan.moves:
                    continue  # paused from the beginning
                self._ways.hold(box)
                if box.slot == self._worker.slot:
                    self._ways.divert(
                        self._worker.inbound[box.channel][1], channel_epoch, each.move.new, self._worker.slot
                    )
                else:
                    each.unseen.add(box.channel)
                    self._ways.say_moved(box, channel_epoch, each.move.new)
        self._ways.off_the_link()
        try:
            data = pack(task, self._worker.clock.now_ns())
        except Exception as error:  # noqa: BLE001 - a user's snapshot() may raise anything
            self._give_up(plan.epoch, error)
            return
        each.parcel = Outgoing(data)

    def _resume(self, each: Leaving, plan: MovePlan) -> None:
        """Let a task go on at its old place."""
        task = each.task
        if task.source is not None:
            task.source.paused = False
        if not each.still:
            return
        if each.frozen:
            self._take_back(each, plan)
        self._worker.thaw(task)

    def _take_back(self, each: Leaving, plan: MovePlan) -> None:
        """Say on every way out of a task that what follows comes from here after all."""
        task, worker, channel_epoch = each.task, self._worker, channel_epoch_of(plan.epoch, undone=True)
        task.next_tick_ns = each.next_tick_ns
        for outlet in task.outlets.values():
            for box in outlet.boxes:
                if (self._ways.target(outlet), box.task) in plan.moves:
                    continue
                box.reset(channel_epoch)
                if box.slot == worker.slot:
                    self._ways.divert(worker.inbound[box.channel][1], channel_epoch, worker.slot, worker.slot)
                else:
                    self._ways.say_moved(box, channel_epoch, worker.slot)
                self._ways.release(box)

    def _let_go(self, task: Task) -> None:
        """Close what a task holds open here; its operators live on elsewhere and are not closed."""
        for reader in task.source.readers.values() if task.source is not None else ():
            reader.close()
        for step in task.chain.steps.values() if not task.closed else ():
            if isinstance(step, SinkStep):
                try:
                    step.close()
                except Exception as error:
                    raise call_error(step.spec.name, task.index, "close()", error) from error
        self.gone.append(task)

    # -- the new place -------------------------------------------------------------------------------------------

    def _take_part(self, place: int, content: memoryview) -> None:
        epoch, key = self._parcels.take(place, content, self._ways.closed)
        if epoch and key is None:
            self._give_up(epoch, MoveError("A part of the task was lost on its way.", "The connection broke."))
        elif key is not None and self._parcels.is_whole(key):
            self._install(key)

    def _install(self, key: tuple[int, int]) -> None:
        """Build a task that has come whole and let it wait for the switch."""
        plan = self._plan
        if plan is None or key[0] != plan.epoch:
            return
        move = list(plan.moves.values())[key[1]]
        try:
            task = rebuilt(self._parcels.pop(key), move, plan, self._worker, self._site)
        except Exception as error:  # noqa: BLE001 - a user's open() or restore() may raise anything
            self._give_up(plan.epoch, error)
            return
        finally:
            self._site.enter("", -1)
        self._worker.add(task)
        self._worker.freeze(task)
        plan.arrived.append(task)
        self._changed()
        self._worker.control_out.append(protocol.Installed(plan.epoch, move.stage, move.task))

    def _give_up(self, epoch: int, error: Exception) -> None:
        text = getattr(error, "message", f"{type(error).__name__}: {error}")
        self._worker.control_out.append(protocol.MoveFailed(epoch, text, getattr(error, "hint", "")))
