"""A worker's part in moving key groups between the tasks of a stage while it runs; ``routing.key_table`` says why so.

The states of the operation at a worker:

    holding    ``HoldSources``: sources read nothing for a moment, so that everyone knows from which roots on the new
               cut holds; their pieces of work come back.
    held       It is said how far they have read.
    cut        ``Regroup`` with the groups cut off: senders cut new roots that way.
    draining   ``GoOn``: sources read, older roots come to their end.
    transfer   ``PauseKeys``: nothing is sent to the tasks concerned, which is said in band (``PAUSED``). The old task,
               once all have said so and no piece of its work is out, stands still, lets its outboxes run empty, makes
               sure in band that all it sent has arrived (``BEHIND``, ``SEEN``), and sends what goes with the groups
               (``STATE``) to the new task, which stands still from then on, its work in hand finished.
    over       ``Regroup`` with the groups at their new tasks: senders sort again what waits for the old ones, the old
               task drops what has gone, the new one takes it in front of what has come since. Or ``Undo``: all go on
               as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.batch import Batch
from tailrace.program.errors import MoveError
from tailrace.routing.key_table import floors_of, ways_beyond
from tailrace.worker.build import router_of
from tailrace.worker.execution.scheduler import IDLE_US
from tailrace.worker.execution.task import CloseWork, TickWork
from tailrace.worker.operations.key_plan import Giving, Row, Taking
from tailrace.worker.operations.key_transfer import KeyTransfer
from tailrace.worker.operations.participant import Participant
from tailrace.worker.snapshots.key_group_snapshot import KeyGroups, give_away, own_inbox, split, take_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.sending.outbox import Outbox
    from tailrace.worker.exchange.outlet import Outlet
    from tailrace.worker.execution.task import Task
    from tailrace.worker.operations.participant import Order, Scope

#: How soon to look again while something is to be done here.
_LOOK_US = 200


class KeyMoveParticipant(Participant):
    """Some key groups of a stage that move together."""

    def __init__(self, scope: Scope, epoch: int) -> None:
        super().__init__(scope, epoch)
        #: Tasks that stand still while sources are held.
        self._still: list[Task] = []
        self._rows: list[Row] = []
        self._keys: KeyGroups | None = None
        self._transfer: KeyTransfer | None = None
        #: Outboxes of this worker to tasks that take part.
        self._paused: list[Outbox] = []

    @property
    def wait_us(self) -> int:
        """Soon, while something is to be done here as soon as it can be."""
        if self.state == "holding":
            return _LOOK_US
        if self._transfer is None or self._transfer.done or self.failed:
            return IDLE_US
        return 0 if self._transfer.sending else _LOOK_US

    # -- orders --------------------------------------------------------------------------------------------------

    def on_order(self, order: Order) -> None:
        """Go to the next state."""
        match order:
            case protocol.HoldSources():
                self._hold(order)
            case protocol.PauseKeys():
                self._pause(order)
            case protocol.Regroup():
                self._regroup(order)
            case protocol.GoOn():
                self.state = "draining"
                self._read_on()
            case _:
                pass

    def _hold(self, order: protocol.HoldSources) -> None:
        """Read nothing until told to go on; where ticks and ends make roots too, begin none."""
        self.state = "holding"
        worker = self.scope.worker
        worker.held = worker.program.durable
        for _, source in worker.sources:
            source.paused = True
        if order.restarted:
            self._still = [task for task in worker.tasks if task.stage.id == order.stage]
        for task in self._still:
            worker.freeze(task)

    def _pause(self, order: protocol.PauseKeys) -> None:
        """Begin to move groups."""
        self.state = "transfer"
        worker, channels = self.scope.worker, self.scope.channels
        self._keys = KeyGroups(worker.program, order.stage)
        self._rows = rows = [Row(at, old, new, frozenset(groups)) for at, (old, new, groups) in enumerate(order.moves)]
        here = {task.index: task for task in worker.tasks if task.stage.id == order.stage}
        giving = [
            Giving(here[old], [row for row in rows if row.old == old])
            for old in sorted({row.old for row in rows} & here.keys())
        ]
        taking = {row.at: Taking(here[row.new], row) for row in rows if row.new in here}
        self._transfer = KeyTransfer(self.scope, self.epoch, order.stage, self._keys, giving, taking)
        tasks = {row.old for row in rows} | {row.new for row in rows}
        for outlet, box in self._boxes(order.stage):
            if box.task in tasks:
                channels.pause(box, self.epoch)
                self._paused.append(box)
            for row in rows:
                if outlet.boxes[row.new].end_sent and not outlet.boxes[row.old].end_sent:
                    self.fail(MoveError("The input of the operator comes to its end."))
        channels.off_the_link()

    def _regroup(self, order: protocol.Regroup) -> None:
        """Go by another table: a new cut, or, where groups are at their new tasks, the end of the operation."""
        scope = self.scope
        scope.site.tables[order.stage] = order.table
        if self.state == "transfer":
            self._switch(order.stage)
            self.state = "over"
        else:
            self.state = "cut"
        for task in scope.worker.tasks:
            if task.stage.id == order.stage and task.deduplicator is not None:
                task.deduplicator.floors = floors_of(order.table)
        self._stir()
        mine = {partition for _, source in scope.worker.sources for partition in source.readers}
        mine |= {own.partition for own in scope.worker.owns}
        scope.older_roots.clear()
        scope.older_roots.update({part: offset for part, offset in order.table.since.items() if part in mine})
        for task, outlet in self._senders(order.stage):
            edge = scope.worker.program.plan.edges[outlet.edge]
            outlet.switch(router_of(scope.worker.program, scope.site, edge, task.index))
            outlet.branch(ways_beyond(order.table, len(outlet.boxes)))
        self.tell(protocol.Switched(self.epoch))

    def undo(self) -> None:
        """The move is given up: all groups stay where they are."""
        if self.state in {"holding", "held", "cut"}:
            self._read_on()
        self._resume()

    def _read_on(self) -> None:
        """Everyone goes by the new cut, or it was given up: sources may read."""
        self._stir()
        worker = self.scope.worker
        for _, source in worker.sources:
            source.paused = False
        worker.let_end()

    def _stir(self) -> None:
        """Let the tasks go on that stood still while sources were held."""
        for task in self._still:
            self.scope.worker.thaw(task)
        self._still = []

    def _switch(self, stage: int) -> None:
        if self._transfer is None or self._keys is None:
            return
        for _, outlet in self._senders(stage):
            self._sort_again(outlet, self._keys)
        for giving in self._transfer.giving:
            give_away(giving.task, giving.groups)
            for channel in own_inbox(giving.task).keep(giving.stays, giving.batches):
                self.scope.delivery.credit(channel)
        now_ns = self.scope.worker.clock.now_ns()
        for taking in self._transfer.taking.values():
            if taking.parcel is not None:
                take_in(taking.task, self._keys, taking.parcel, now_ns)
        self._resume()

    def _sort_again(self, outlet: Outlet, keys: KeyGroups) -> None:
        """Let what waits for an old task and belongs to moved groups wait for the new one."""
        for row in self._rows:
            old, new = outlet.boxes[row.old], outlet.boxes[row.new]
            waiting = Batch(old.values, old.sizes if old.heads else None, old.heads)
            stays, goes = split(waiting, keys.picks(outlet.edge, row.groups))
            if goes is not None:
                new.since_ns = min(new.since_ns, old.since_ns) if new.values else old.since_ns
                new.put(goes)
                old.clear()
                if stays is not None:
                    old.put(stays)

    def _resume(self) -> None:
        """Let everything go on that stands still."""
        for box in self._paused:
            self.scope.channels.release(box)
        if self._transfer is not None:
            self._transfer.resume()
        self.scope.channels.off_the_link()

    def _senders(self, stage: int) -> Iterator[tuple[Task, Outlet]]:
        for task in self.scope.worker.tasks:
            for outlet in task.outlets.values():
                if self.scope.channels.target(outlet) == stage:
                    yield task, outlet

    def _boxes(self, stage: int) -> Iterator[tuple[Outlet, Outbox]]:
        return ((outlet, box) for _, outlet in self._senders(stage) for box in outlet.boxes)

    # -- turns ---------------------------------------------------------------------------------------------------

    def progress(self) -> None:
        """Say how far sources have read once they stand still; take the groups as far as they can be taken."""
        if self.state == "holding" and not any(map(_makes_roots, self.scope.worker.tasks)):
            self._say_held()
        elif self.state == "transfer" and self._transfer is not None:
            self._transfer.progress()

    def _say_held(self) -> None:
        self.state = "held"
        offsets: dict[int, int] = {}
        incs: dict[int, int] = {}
        durable = self.scope.worker.program.durable
        for _, source in self.scope.worker.sources:
            offsets |= source.ledger.next_offsets()
            for partition, owed in source.owed.items():  # in the cut they were applied by the way they went then
                offsets[partition] = max(owed, offsets.get(partition, 0))
            if not durable:  # else another execution refuses what is of the one before
                incs |= dict.fromkeys(source.readers, source.ledger.base_inc)
        for own in self.scope.worker.owns:
            offsets[own.partition] = own.next
        for task in self._still:
            for partition, offset in task.deduplicator.newest().items() if task.deduplicator is not None else ():
                offsets[partition] = max(offset, offsets.get(partition, 0))
        self.tell(protocol.Held(self.epoch, offsets, incs))


def _makes_roots(task: Task) -> bool:
    """Whether something is out that will make roots: a read, or a tick or an end."""
    if task.source is not None:
        return task.in_flight > 0
    return task.own is not None and any(isinstance(piece, TickWork | CloseWork) for piece in task.pieces)
