"""The ways to and from a worker's tasks during an operation: holding them, saying so in band, leading them elsewhere.

Kinds of operations say when; ``control_items`` hands over what workers say in band, and ``delivery`` asks it to say
things again after a broken connection. Touches outboxes and channels, and keeps what has come of state on its way here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tailrace.items import Behind, Moved, Paused, Seen
from tailrace.worker.operations.state_transfer import StateArrivals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.receiving.inbox import Channel
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.exchange.outlet import Outlet
    from tailrace.worker.uplink.link import Uplink
    from tailrace.worker.worker_state import WorkerState


class _Question(NamedTuple):
    """What was said on a channel that its receiver answers by ``Seen`` with the same number."""

    number: int
    item: Moved | Behind


def channel_epoch_of(epoch: int, *, undone: bool = False) -> int:
    """The epoch of the channels of a task after a move of tasks was carried out, or after it was undone."""
    return 2 * epoch + undone


class ChannelControl:
    """What leads out of one worker's tasks, and into them."""

    def __init__(self, worker: WorkerState, uplink: Uplink | None) -> None:
        self._worker = worker
        self._uplink = uplink
        #: The newest operation that is over, here; what still comes of it is late.
        self.closed = 0
        #: State on its way to this worker.
        self.arrivals = StateArrivals()
        #: Channels whose sending task has left its slot in an operation that is not over yet, with that slot.
        self._diverted: dict[Channel, int] = {}
        #: Outboxes whose receivers were told that nothing more comes for now, with the epoch.
        self._paused: dict[Outbox, int] = {}
        #: Channels out of here whose receivers have yet to say that all sent before is there.
        self._unseen: dict[int, _Question] = {}
        worker.control.handle(Paused, self._on_paused)
        worker.control.handle(Moved, self._on_moved)
        worker.control.handle(Behind, self._on_behind)
        worker.control.handle(Seen, self._on_seen)

    # -- holding and releasing -----------------------------------------------------------------------------------

    def all(self) -> Iterator[tuple[Outlet, Outbox]]:
        """Every way out of this worker's tasks."""
        for task in self._worker.tasks:
            for outlet in task.outlets.values():
                for box in outlet.boxes:
                    yield outlet, box

    def target(self, outlet: Outlet) -> int:
        """The stage at the end of an edge."""
        return self._worker.program.plan.edges[outlet.edge].dst_stage

    def hold(self, box: Outbox) -> None:
        """Send nothing more from an outbox."""
        box.paused = True
        self._worker.dirty.pop(box, None)

    def pause(self, box: Outbox, epoch: int) -> None:
        """Send nothing more from an outbox, and say so behind what was sent."""
        self.hold(box)
        self._paused[box] = epoch
        self._worker.control.say(box, Paused(epoch))

    def release(self, box: Outbox) -> None:
        """Let an outbox send again."""
        box.paused = False
        self._paused.pop(box, None)
        if box.values or box.ended:
            self._worker.dirty[box] = None

    def off_the_link(self) -> None:
        """Take outboxes that wait for a limited uplink back: some of them may not send now."""
        if self._uplink is not None:
            self._uplink.restart()

    # -- saying --------------------------------------------------------------------------------------------------

    def leave(self, box: Outbox, channel_epoch: int, slot: int) -> None:
        """Send nothing more from an outbox, and say behind what was sent from where the rest comes."""
        self.hold(box)
        self._ask(box, _Question(channel_epoch, Moved(channel_epoch, slot)))

    def come_back(self, box: Outbox, channel_epoch: int) -> None:
        """Say on a way out that what follows comes from here after all, and send."""
        box.reset(channel_epoch)
        self._say_where(box)
        self.release(box)

    def ask_behind(self, box: Outbox, epoch: int) -> None:
        """Have the receiver of an outbox say when all that was sent is there."""
        self._ask(box, _Question(epoch, Behind(epoch)))

    def _ask(self, box: Outbox, question: _Question) -> None:
        self._unseen[box.channel] = question
        self._worker.control.say(box, question.item)

    def _say_where(self, box: Outbox) -> None:
        self._worker.control.say(box, Moved(box.channel_epoch, self._worker.slot))

    def seen(self, boxes: Iterable[Outbox]) -> bool:
        """Whether the receivers of these outboxes have all that was sent, as far as they were asked."""
        return self._unseen.keys().isdisjoint([box.channel for box in boxes])

    # -- after a broken connection -------------------------------------------------------------------------------

    def say_before(self, box: Outbox) -> None:
        """Say, before the count of what was sent, since when it counts: after an undone move."""
        if box.channel_epoch % 2:
            self._say_where(box)

    def say_again(self, box: Outbox) -> None:
        """Say again, behind what was sent, what may have been lost with the connection."""
        epoch = self._paused.get(box)
        if epoch is not None:
            self._worker.control.say(box, Paused(epoch))
        question = self._unseen.get(box.channel)
        if question is not None:
            self._worker.control.say(box, question.item)

    # -- what others say -----------------------------------------------------------------------------------------

    def on_part(self, row: int, content: bytes) -> None:
        """Take in a part of what moves here."""
        self.arrivals.take(row, memoryview(content), self.closed)

    def _on_paused(self, number: int, item: Paused, slot: int) -> None:
        del slot
        if (found := self._worker.inbound.get(number)) is not None and item.epoch > self.closed:
            found[1].paused = item.epoch

    def _on_moved(self, number: int, item: Moved, slot: int) -> None:
        if (found := self._worker.inbound.get(number)) is not None:
            self._divert(found[1], item.channel_epoch, item.slot, slot)

    def _on_behind(self, number: int, item: Behind, slot: int) -> None:
        self._worker.control.send(slot, number, Seen(item.epoch))

    def _on_seen(self, number: int, item: Seen, slot: int) -> None:
        del slot
        question = self._unseen.get(number)
        if question is not None and question.number == item.number:
            del self._unseen[number]

    def _divert(self, channel: Channel, channel_epoch: int, slot: int, sender: int) -> None:
        """The task at the other end of a channel leaves its slot, or has come back to it."""
        undone = channel_epoch % 2 == 1
        if not undone and channel_epoch // 2 <= self.closed:
            return  # given up in the meantime: what follows from the sender says so
        if channel.channel_epoch != channel_epoch:
            if not undone:
                self._diverted[channel] = channel.slot
            channel.slot = slot
            channel.reset(channel_epoch)
        if not undone:
            self._worker.control.send(sender, channel.id, Seen(channel_epoch))

    # -- the end of an operation ---------------------------------------------------------------------------------

    def undo(self, epoch: int) -> None:
        """A move of tasks was given up: what they send comes from their old places."""
        for channel, slot in self._diverted.items():
            if channel.channel_epoch == channel_epoch_of(epoch):  # else the old place itself has said that it goes on
                channel.slot = slot

    def end(self, epoch: int) -> None:
        """An operation is over, here, and all before it."""
        self.closed = max(self.closed, epoch)
        self._diverted.clear()
        self._unseen.clear()
        self._paused.clear()
        self.arrivals.forget(self.closed)
