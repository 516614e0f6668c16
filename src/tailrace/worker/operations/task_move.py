"""A worker's part in moving tasks while they run: pause the ways to them, hand them over, take them in, go on.

The states of the operation at a worker:

    transfer   ``Pause``: nothing is sent to the tasks that move, which is said in band on every such channel
               (``PAUSED``). The old place of a task, once every sender has said so, gives it no more turns; once no
               piece of its work is out, says in band on every channel out of it where the rest comes from (``MOVED``,
               answered by ``SEEN``), and sends the task, its queues included, to the new place (``STATE``), which
               builds and opens it and lets it wait.
    relocated  ``Relocate``: the ways lead to the new places, old tasks are let go, new ones run; sources do not read
               before everyone has switched, because until then acks would go to their old place.
    over       ``GoOn``: sources read. Or ``Undo`` instead of ``Relocate``: all go on as before.

So nothing is under way to or from a task when it changes its place, and order holds on every channel. Counts of a
channel begin again with each move, under a new *epoch*, so that a late credit of the old place is known for what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tailrace import protocol
from tailrace.program.errors import MoveError
from tailrace.routing.detour import Detour
from tailrace.worker.blame import call_error
from tailrace.worker.build import router_of
from tailrace.worker.execution.scheduler import IDLE_US
from tailrace.worker.execution.steps import SinkStep
from tailrace.worker.operations.channel_control import channel_epoch_of
from tailrace.worker.operations.participant import Participant
from tailrace.worker.operations.state_transfer import Departure
from tailrace.worker.operations.task_restore import rebuilt
from tailrace.worker.snapshots.task_snapshot import pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.sending.outbox import Outbox
    from tailrace.worker.execution.task import Task
    from tailrace.worker.operations.participant import Order, Scope

_NS_PER_S = 1_000_000_000


class Move(NamedTuple):
    """One task of a plan: its stage and number, where it was and where it goes."""

    stage: int
    task: int
    old: int
    new: int


@dataclass
class Leaving:
    """A task that goes from here: ``runs``, gets no more turns (``still``), is on its way (``sent``), is ``cleared``.

    It is cleared when all parts of it are sent and the receivers of what it gave have everything.
    """

    row: int
    move: Move
    task: Task
    state: str = "runs"
    next_tick_ns: int | None = None
    #: What is sent to its new place, once it is packed.
    departure: Departure | None = None


class TaskMoveParticipant(Participant):
    """Some tasks that move together."""

    def __init__(self, scope: Scope, epoch: int) -> None:
        super().__init__(scope, epoch)
        self.moves: dict[tuple[int, int], Move] = {}
        self._leaving: list[Leaving] = []
        #: Outboxes of this worker to tasks that move, with where those go.
        self._paused: list[tuple[Outbox, int]] = []
        self._arrived: list[Task] = []

    @property
    def wait_us(self) -> int:
        """At once while parts of a task wait to be sent."""
        return 0 if any(each.departure for each in self._leaving) else IDLE_US

    # -- orders --------------------------------------------------------------------------------------------------

    def on_order(self, order: Order) -> None:
        """Begin, go over to the new places, or let sources read."""
        if isinstance(order, protocol.Pause):
            self._pause(order)
        elif isinstance(order, protocol.Relocate):
            self._relocate()
        elif isinstance(order, protocol.GoOn):
            for _, source in self.scope.worker.sources:
                source.paused = False
            self.state = "over"

    def _pause(self, order: protocol.Pause) -> None:
        self.state = "transfer"
        worker, channels = self.scope.worker, self.scope.channels
        self.moves = {(row[0], row[1]): Move(*row) for row in order.moves}
        self._leaving = [
            Leaving(row, move, task)
            for row, move in enumerate(self.moves.values())
            for task in worker.tasks
            if move.old == worker.slot and (task.stage.id, task.index) == (move.stage, move.task)
        ]
        for outlet, box in channels.all():
            move = self.moves.get((channels.target(outlet), box.task))
            if move is not None:
                channels.pause(box, self.epoch)
                self._paused.append((box, move.new))
        channels.off_the_link()
        for each in self._leaving:
            if each.task.source is not None:
                each.task.source.paused = True
            if each.task.group is not None:
                self.fail(MoveError(f"The tasks of {each.task.name!r} share an inbox by now."))

    def _relocate(self) -> None:
        """Every task is at its new place and everything sent before is there: go on that way."""
        self.state = "relocated"
        worker, channels, site = self.scope.worker, self.scope.channels, self.scope.site
        for move in self.moves.values():
            site.placement[move.stage][move.task] = move.new
        for box, slot in self._paused:
            box.slot = slot
            box.reset(channel_epoch_of(self.epoch))
            channels.release(box)
        for each in self._leaving:
            worker.remove(each.task)
            self._let_go(each.task)
        for task in self._arrived:
            for box in task.boxes:
                box.paused = False
            every_s = task.chain.tick_every_s
            if every_s is not None and not task.finished:
                task.next_tick_ns = worker.clock.now_ns() + int(every_s * _NS_PER_S)
            worker.thaw(task)
        self._reroute({move.stage for move in self.moves.values()})
        channels.end(self.epoch)
        self._settle()
        self.tell(protocol.Switched(self.epoch))

    def undo(self) -> None:
        """The move is given up: everything goes on at its old place."""
        channels, worker = self.scope.channels, self.scope.worker
        for each in self._leaving:
            if each.task.source is not None:
                each.task.source.paused = False
            if each.state in {"sent", "cleared"}:
                self._take_back(each)
            if each.state != "runs":
                worker.thaw(each.task)
        for box, _ in self._paused:
            channels.release(box)
        for task in self._arrived:
            worker.remove(task)
            self._let_go(task)
        channels.undo(self.epoch)
        self._settle()

    def _settle(self) -> None:
        """Tasks have come or gone, or stay after all."""
        self.scope.acks.find_sources(self.scope.site.placement)
        self.scope.channels.off_the_link()
        self.scope.tasks_changed()

    def _reroute(self, stages: set[int]) -> None:
        """Senders that prefer receivers near them look which those are now."""
        worker, site = self.scope.worker, self.scope.site
        before = dict(site.near)
        site.near.update(self.scope.nearness.rows(site.placement))
        for task in worker.tasks:
            for number, outlet in task.outlets.items():
                edge = worker.program.plan.edges[number]
                local = edge.grouping.kind == "local" and edge.dst_stage in stages
                if local or before.get(number) != site.near.get(number):
                    rule = router_of(worker.program, site, edge, task.index)
                    if isinstance(rule, Detour):
                        rule.pending = outlet.pending  # what is under way comes back to it
                    outlet.switch(rule)

    # -- turns ---------------------------------------------------------------------------------------------------

    def progress(self) -> None:
        """Take every task that leaves or comes as far as it can be taken now."""
        if self.state != "transfer":
            return
        for each in self._leaving:
            self._let_leave(each)
        for row in self.scope.channels.arrivals.whole(self.epoch):
            self._install(row)

    def _let_leave(self, each: Leaving) -> None:
        worker, task = self.scope.worker, each.task
        if each.state == "runs" and self._may_stand_still(task):
            # Pieces that are out come back; what waits is worked off at the new place.
            each.state = "still"
            worker.freeze(task)
        own_open = task.own is not None and bool(len(task.own.ledger))  # who waits for their acks is here
        if each.state == "still" and not task.in_flight and not own_open and self.scope.acks.settled(task):
            self._send(each)
        if each.departure:
            each.departure.send(worker.outgoing, each.move.new, (self.epoch, each.row))
        if each.state == "sent" and not each.departure and self.scope.channels.seen(task.boxes):
            each.state = "cleared"
            self.tell(protocol.Cleared(self.epoch, each.row))

    def _may_stand_still(self, task: Task) -> bool:
        if task.source is not None:
            return not task.in_flight and not len(task.source.ledger)
        return task.inbox is not None and all(each.paused == self.epoch for each in task.inbox.channels.values())

    def _send(self, each: Leaving) -> None:
        """Let go of a task that stands still, with everything said on the ways out of it."""
        worker = self.scope.worker
        each.state = "sent"
        each.next_tick_ns, each.task.next_tick_ns = each.task.next_tick_ns, None
        for box in self._ways_out(each.task):
            self.scope.channels.leave(box, channel_epoch_of(self.epoch), each.move.new)
        self.scope.channels.off_the_link()
        worker.outgoing.dispatch(acks=True)  # what is acknowledged here must not wait: the worker may be dismissed next
        each.departure = Departure(pack(each.task, worker.clock.now_ns(), worker.driver.next_numbers(each.task)))

    def _ways_out(self, task: Task) -> Iterator[Outbox]:
        """The ways out of a task that leaves, but for those to others that move: they are paused from the beginning."""
        for outlet in task.outlets.values():
            for box in outlet.boxes:
                if (self.scope.channels.target(outlet), box.task) not in self.moves:
                    yield box

    def _take_back(self, each: Leaving) -> None:
        """Say on every way out of a task that what follows comes from here after all."""
        each.task.next_tick_ns = each.next_tick_ns
        for box in self._ways_out(each.task):
            self.scope.channels.come_back(box, channel_epoch_of(self.epoch, undone=True))

    def _let_go(self, task: Task) -> None:
        """Close what a task holds open here; its operators live on elsewhere and are not closed."""
        for reader in task.source.readers.values() if task.source is not None else ():
            reader.close()
        for step in task.chain.steps.values():
            if isinstance(step, SinkStep) and (not task.closed or step.outlives_input):
                try:
                    step.release()
                except Exception as error:
                    raise call_error(step.spec.name, task.index, "close()", error) from error
        self.scope.gone.append(task)

    def _install(self, row: int) -> None:
        """Build a task that has come whole and let it wait for the switch."""
        scope = self.scope
        try:
            data = scope.channels.arrivals.pop((self.epoch, row))
            task = rebuilt(data, list(self.moves.values())[row], self, scope.worker, scope.site)
        finally:
            scope.site.enter("", -1)
        scope.worker.add(task)
        scope.adopt(task)
        scope.worker.freeze(task)
        self._arrived.append(task)
        scope.tasks_changed()
        self.tell(protocol.Installed(self.epoch, row))
