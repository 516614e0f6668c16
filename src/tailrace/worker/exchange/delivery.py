"""What moves between tasks: batches and control items from outboxes to inboxes, and credits back.

Data goes as it is where both tasks are in this worker, else through ``outgoing``; control items go through
``control_items`` either way. Called by the brain with messages and in every round; touches the worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.items import End, Prompt, Resync
from tailrace.routing import PENDING_ROUTINGS
from tailrace.transport import codec, wire
from tailrace.transport import message_codec as mail

if TYPE_CHECKING:
    from tailrace import protocol
    from tailrace.batch import Batch
    from tailrace.config import Policy
    from tailrace.receiving.inbox import Arrival, Channel
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.exchange.acks import Acknowledger
    from tailrace.worker.execution.task import Task
    from tailrace.worker.operations.channel_control import ChannelControl
    from tailrace.worker.uplink.link import Uplink
    from tailrace.worker.worker_state import WorkerState

#: How many times longer credits may gather where only replays go by them.
_DETOUR_PACES = 5


class Delivery:
    """What moves between tasks."""

    def __init__(
        self, worker: WorkerState, acks: Acknowledger, uplink: Uplink | None, channels: ChannelControl
    ) -> None:
        self._worker = worker
        self._acks = acks
        worker.control.handle(End, self._on_end)
        worker.control.handle(Resync, self._on_resync)
        worker.control.handle(Prompt, self._on_prompt)
        self.lost_tuples = 0
        #: Where the node's uplink is limited: what goes off the node waits there.
        self.uplink = uplink
        #: Takes part in what is said in band about operations.
        self._channels = channels
        self._batch_max = worker.program.settings.batch_max
        self._flush_ns = worker.program.settings.flush_us * 1000
        #: Channels whose senders have yet to hear what is done.
        self._owed: dict[Channel, None] = {}
        self._paid_ns = 0
        self._pace_ns: int | None = None
        self.pace_credits(worker.program.policy)

    def pace_credits(self, policy: Policy) -> None:
        """Set how long credits for finished work gather, by who goes by them.

        A balancing rule goes by every tuple, a detour by who is alive; where nobody does they are as coarse as the
        window allows.
        """
        by_pending, detours = policy.routing in PENDING_ROUTINGS, policy.replay == "adaptive"
        paces = 1 if by_pending else _DETOUR_PACES if detours else None
        self._pace_ns = None if paces is None else paces * self._worker.program.settings.credit_pace_us * 1000
        for _, channel in self._worker.inbound.values():
            if channel.at_end and channel.consumed != channel.reported and channel.slot != self._worker.slot:
                self._owed[channel] = None

    # -- in ------------------------------------------------------------------------------------------------------

    def receive(self, frames: list[mail.Opened], slot: int) -> None:
        """Take in the frames of a message whose sender is known to be current."""
        worker = self._worker
        now_ns = worker.clock.now_ns()
        for kind, channel, content in frames:
            if kind == wire.DATA:
                self._deliver(*worker.inbound[channel], mail.batch_in(content), now_ns)
            elif kind == wire.ACKS:
                self._acks.arrived(codec.decode_heads(content), now_ns)
            elif kind == wire.CREDITS:
                self._credited(channel, slot, *wire.CREDIT.unpack(content))
            elif kind == wire.STATE:
                self._channels.on_part(channel, content)
            else:
                worker.control.arrive(channel, wire.control_of(kind, content), slot)

    def _deliver(self, task: Task, channel: Channel, batch: Batch, now_ns: int) -> None:
        if task.closing:
            self._answer_late(task, channel, batch)
            return
        task.inbox.put(channel, batch, now_ns)  # type: ignore[union-attr]
        if task.group is None:
            self._worker.enqueue(task)
        else:
            task.group.wake()

    def _answer_late(self, task: Task, channel: Channel, batch: Batch) -> None:
        """Answer what comes after the end of all input: sources end with all their roots complete, so it is there."""
        channel.received += len(batch)
        channel.consumed += len(batch)
        self.credit(channel)
        if batch.heads:
            self._acks.ack(task, batch.heads)

    def _from(self, number: int, slot: int) -> tuple[Task, Channel] | None:
        """The receiving end of a channel, if the slot is its sender's; else the task at one of its ends has moved."""
        found = self._worker.inbound.get(number)
        return found if found is not None and found[1].slot == slot else None

    def _on_end(self, number: int, item: End, slot: int) -> None:
        del item
        if (found := self._from(number, slot)) is not None:
            task, channel = found
            task.inbox.end(channel)  # type: ignore[union-attr]
            if task.group is None:
                self._worker.enqueue(task)
            else:
                task.group.wake()

    def _on_resync(self, number: int, item: Resync, slot: int) -> None:
        if (found := self._from(number, slot)) is not None:
            channel = found[1]
            lost = item.sent - channel.received
            if lost > 0:
                self.lost_tuples += lost
                channel.received = item.sent
                channel.consumed += lost
                self.credit(channel)

    def _on_prompt(self, number: int, item: Prompt, slot: int) -> None:
        if (found := self._from(number, slot)) is not None:
            channel = found[1]
            channel.hurry(on=item.on)
            if item.on and channel.consumed != channel.reported:
                self.credit(channel)

    def credit(self, channel: Channel) -> None:
        """Tell the sender of a channel how much of it was consumed: a ``Credit``, without making one of each."""
        channel.reported = channel.consumed
        if channel.slot == self._worker.slot:
            self._credited(channel.id, channel.slot, channel.consumed, channel.channel_epoch)
        else:
            self._worker.outgoing.credit(channel.slot, channel.id, channel.consumed, channel.channel_epoch)

    def finished(self, arrivals: list[Arrival]) -> None:
        """The work on these tuples is done: their senders hear of it soon, where they go by that."""
        for channel, count, _ in arrivals:
            if channel.at_end:
                channel.consume(count)
                if channel.prompt or channel.slot == self._worker.slot:
                    self.credit(channel)
                elif self._pace_ns is not None or channel.credit_due:
                    self._owed[channel] = None

    def _pay(self, now_ns: int, *, acks: bool) -> None:
        """Send the credits that are owed: with other mail to the same worker, else together, a pace apart."""
        due = self._pace_ns is None or now_ns - self._paid_ns >= self._pace_ns
        if due:
            self._paid_ns = now_ns
        paid = [channel for channel in self._owed if due or self._worker.outgoing.writes_to(channel.slot, acks=acks)]
        for channel in paid:
            self.credit(channel)
            del self._owed[channel]

    def wait_ns(self, now_ns: int) -> int | None:
        """How long nothing has to be sent: credits still gather, the link is busy; None when neither is."""
        owed_ns = max(0, self._paid_ns + (self._pace_ns or 0) - now_ns) if self._owed else None
        link_ns = None if self.uplink is None else self.uplink.wait_ns(now_ns)
        return link_ns if owed_ns is None else owed_ns if link_ns is None else min(owed_ns, link_ns)

    def _credited(self, number: int, slot: int, consumed: int, channel_epoch: int) -> None:
        box = self._worker.outbound.get(number)
        if box is None or box.channel_epoch != channel_epoch or box.slot != slot:
            # Of a time before the task at one of its ends moved. The epoch alone does not tell: where the new place was
            # lost, its channels begin again with the first one, and the old place may still have something to say.
            return
        box.credited(consumed)
        if box.values:
            self._worker.dirty[box] = None

    # -- peers come and go ---------------------------------------------------------------------------------------

    def replaced(self, peer: protocol.Peer, *, known: bool = False) -> None:
        """Begin every channel with a slot again: its old worker is gone.

        A worker that was deployed with the new one for a peer has none that were begun with the old one, and may have
        heard from the new one already: it only waits until that is open.
        """
        worker = self._worker
        if known:
            worker.outgoing.wait_for(peer.slot)
            return
        worker.outgoing.hold(peer.slot)
        for group in worker.groups.values():
            group.release(peer.slot)
        for box in worker.outbound.values():
            if box.slot == peer.slot:
                box.reset()
                worker.dirty[box] = None
        for task, channel in worker.inbound.values():
            if channel.slot == peer.slot:
                channel.reset()
                channel.ended = channel.ended and task.closed

    def reconnected(self, slot: int) -> None:
        """A broken connection to a living peer is back: say again what was sent and taken, for some of it was lost."""
        worker = self._worker
        for box in worker.outbound.values():
            if box.slot == slot:
                self._channels.say_before(box)
                worker.control.say(box, Resync(box.sent))
                if box.prompt:
                    worker.control.say(box, Prompt(on=True))
                if box.end_sent:
                    worker.control.say(box, End())
                self._channels.say_again(box)
        for _, channel in worker.inbound.values():
            if channel.slot == slot:
                self.credit(channel)

    # -- out -----------------------------------------------------------------------------------------------------

    def flush(self, *, idle: bool) -> None:
        """Send what is due: all of it when there is nothing else to do, else full and waiting outboxes."""
        worker = self._worker
        now_ns = worker.clock.now_ns()
        if worker.dirty:
            for box in list(worker.dirty):
                if idle or box.ended or len(box.values) >= self._batch_max or now_ns - box.since_ns >= self._flush_ns:
                    self._flush_box(box, now_ns)
        if self.uplink is not None:
            self.uplink.send(now_ns)
        acks = self._acks.due(now_ns)
        if self._owed:
            self._pay(now_ns, acks=acks)
        worker.outgoing.dispatch(acks=acks)

    def _flush_box(self, box: Outbox, now_ns: int) -> None:
        worker = self._worker
        if box.paused:
            del worker.dirty[box]
            return
        here = box.slot == worker.slot
        if not here and self.uplink is not None and self.uplink.takes(box, now_ns):
            del worker.dirty[box]
            return
        if here or worker.outgoing.accepts(box.slot):
            if here:
                self._hand_over(box, now_ns)
            else:
                worker.outgoing.data(box)
            if box.ended and not box.values and not box.end_sent:
                box.end_sent = True
                worker.control.say(box, End())
        if not box.values and (box.end_sent or not box.ended):
            del worker.dirty[box]
        elif box.room <= 0:
            del worker.dirty[box]  # a credit brings it back

    def _hand_over(self, box: Outbox, now_ns: int) -> None:
        """Give an outbox's tuples to a task of this worker as they are, without encoding."""
        task, channel = self._worker.inbound[box.channel]
        while box.values and box.room > 0:
            self._deliver(task, channel, box.take(min(box.room, self._batch_max)), now_ns)
            if box.prompt != (box.heavy_bytes > 0):
                box.prompt = not box.prompt
                self._worker.control.say(box, Prompt(box.prompt))
