"""Tuples and control records between this worker and the others: frames in, outboxes out, credits both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from tailrace.worker.migration.key_mover import KeyMover
    from tailrace.worker.migration.mover import Mover
    from tailrace.worker.uplink.link import Uplink
    from tailrace.worker.worker_state import WorkerState

#: How many times longer credits may gather where only replays go by them.
_DETOUR_PACES = 5


class Delivery:
    """What moves between tasks."""

    def __init__(self, worker: WorkerState, acks: Acknowledger) -> None:
        self._worker = worker
        self._acks = acks
        self.lost_tuples = 0
        #: Where the node's uplink is limited: what goes off the node waits there. Set by the brain.
        self.uplink: Uplink | None = None
        self._batch_max = worker.program.settings.batch_max
        self._flush_ns = worker.program.settings.flush_us * 1000
        #: Channels whose senders have yet to hear what is done.
        self._owed: dict[Channel, None] = {}
        self._paid_ns = 0
        self._pace_ns: int | None = None
        #: Takes part when tasks move; set by the brain.
        self.mover: Mover
        #: Takes part when key groups move; set by the brain.
        self.keys: KeyMover
        self.pace_credits(worker.program.policy)
        for group in worker.groups.values():
            group.delivery = self

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
                self._credited(channel, *wire.CREDIT.unpack(content))
            elif kind == wire.END:
                self._end(*worker.inbound[channel])
            elif kind == wire.RESYNC:
                self._resync(channel, slot, int.from_bytes(content, "little"))
            elif kind == wire.PROMPT:
                self._hurry(channel, slot, on=content[0] == 1)
            elif kind in wire.MOVING:
                self.mover.on_frame(kind, channel, content, slot)
            else:
                self.keys.on_frame(kind, channel, content, slot)

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

    def _end(self, task: Task, channel: Channel) -> None:
        task.inbox.end(channel)  # type: ignore[union-attr]
        if task.group is None:
            self._worker.enqueue(task)
        else:
            task.group.wake()

    def _resync(self, number: int, slot: int, sent: int) -> None:
        found = self._worker.inbound.get(number)
        if found is None or found[1].slot != slot:
            return  # the task at one of its ends has moved since
        channel = found[1]
        lost = sent - channel.received
        if lost > 0:
            self.lost_tuples += lost
            channel.received = sent
            channel.consumed += lost
            self.credit(channel)

    def _hurry(self, number: int, slot: int, *, on: bool) -> None:
        found = self._worker.inbound.get(number)
        if found is None or found[1].slot != slot:
            return  # the task at one of its ends has moved since
        channel = found[1]
        channel.hurry(on=on)
        if on and channel.consumed != channel.reported:
            self.credit(channel)

    def credit(self, channel: Channel) -> None:
        """Tell the sender of a channel how much of it was consumed."""
        channel.reported = channel.consumed
        if channel.slot == self._worker.slot:
            self._credited(channel.id, channel.consumed, channel.channel_epoch)
        else:
            self._worker.outgoing.credit(channel.slot, channel.id, channel.consumed, channel.channel_epoch)

    def finished(self, arrivals: list[Arrival]) -> None:
        """The work on these tuples is done: their senders hear of it soon, where they go by that."""
        for channel, count, _ in arrivals:
            if channel.at_end:
                channel.consume(count)
                if channel.prompt or channel.slot == self._worker.slot:
                    self.credit(channel)
                elif self._pace_ns is not None or channel.consumed - channel.reported >= channel.credit_step:
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

    def _credited(self, number: int, consumed: int, channel_epoch: int) -> None:
        box = self._worker.outbound.get(number)
        if box is None or box.channel_epoch != channel_epoch:
            return  # of a time before the task at one of its ends moved
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
                self.mover.say_before(box)
                worker.outgoing.resync(box)
                if box.prompt:
                    worker.outgoing.prompt(box)
                if box.end_sent:
                    worker.outgoing.end(box)
                self.mover.say_again(box)
                self.keys.say_again(box)
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
        if box.slot == worker.slot:
            self._hand_over(box, now_ns)
        elif self.uplink is not None and self.uplink.takes(box, now_ns):
            del worker.dirty[box]
            return
        elif worker.outgoing.accepts(box.slot):
            worker.outgoing.data(box)
            if box.ended and not box.values and not box.end_sent:
                worker.outgoing.end(box)
        if not box.values and (box.end_sent or not box.ended):
            del worker.dirty[box]
        elif box.room <= 0:
            del worker.dirty[box]  # a credit brings it back

    def _hand_over(self, box: Outbox, now_ns: int) -> None:
        """Give an outbox's tuples to a task of this worker as they are, without encoding."""
        task, channel = self._worker.inbound[box.channel]
        while box.values and box.room > 0:
            batch = box.take(min(box.room, self._batch_max))
            channel.hurry(on=box.heavy_bytes > 0)
            self._deliver(task, channel, batch, now_ns)
        if box.ended and not box.values and not box.end_sent:
            box.end_sent = True
            self._end(task, channel)
