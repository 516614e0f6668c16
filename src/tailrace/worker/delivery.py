"""Tuples and control records between this worker and the others: frames in, outboxes out, credits both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tailrace.transport import codec, wire

if TYPE_CHECKING:
    from tailrace import protocol
    from tailrace.batch import Batch
    from tailrace.receiving.inbox import Channel
    from tailrace.sending.outbox import Outbox

    from .acks import Acknowledger
    from .floor import Floor
    from .task import Task

_ACKS_NOW = 1024
_decode_acks = msgspec.msgpack.Decoder(tuple[list[int], list[int], list[int]]).decode


class Delivery:
    """What moves between tasks."""

    def __init__(self, floor: Floor, acks: Acknowledger) -> None:
        self._floor = floor
        self._acks = acks
        self.lost_tuples = 0

    # -- in ------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview) -> None:
        """Take in the frames of a message whose sender is known to be current."""
        floor = self._floor
        now_ns = floor.clock.now_ns()
        for frame in wire.frames(data):
            if frame.kind == wire.DATA:
                self._deliver(*floor.inbound[frame.channel], codec.decode_batch(frame.payload), now_ns)
            elif frame.kind == wire.ACKS:
                self._acks.arrived(*_decode_acks(frame.payload), now_ns)
            elif frame.kind == wire.CREDITS:
                self._credited(floor.outbound[frame.channel], int.from_bytes(frame.payload, "little"))
            elif frame.kind == wire.END:
                self._end(*floor.inbound[frame.channel])
            elif frame.kind == wire.RESYNC:
                self._resync(floor.inbound[frame.channel][1], int.from_bytes(frame.payload, "little"))

    def _deliver(self, task: Task, channel: Channel, batch: Batch, now_ns: int) -> None:
        if task.closing:
            self._answer_late(task, channel, batch)
            return
        task.inbox.put(channel, batch, now_ns)  # type: ignore[union-attr]
        self._floor.enqueue(task)

    def _answer_late(self, task: Task, channel: Channel, batch: Batch) -> None:
        """Answer what comes after the end of all input: sources end with all their roots complete, so it is there."""
        channel.received += len(batch)
        channel.consumed += len(batch)
        self.credit(channel)
        if batch.lineages:
            self._acks.ack(task, batch.roots, batch.incs, batch.lineages)

    def _end(self, task: Task, channel: Channel) -> None:
        channel.ended = True
        self._floor.enqueue(task)

    def _resync(self, channel: Channel, sent: int) -> None:
        lost = sent - channel.received
        if lost > 0:
            self.lost_tuples += lost
            channel.received = sent
            channel.consumed += lost
            self.credit(channel)

    def credit(self, channel: Channel) -> None:
        """Tell the sender of a channel how much of it was consumed."""
        channel.reported = channel.consumed
        if channel.slot == self._floor.slot:
            self._credited(self._floor.outbound[channel.id], channel.consumed)
        else:
            self._floor.post.credit(channel.slot, channel.id, channel.consumed)

    def _credited(self, box: Outbox, consumed: int) -> None:
        box.consumed = consumed
        if box.values:
            self._floor.dirty[box] = None

    # -- peers come and go ---------------------------------------------------------------------------------------

    def replaced(self, peer: protocol.Peer) -> None:
        """Begin every channel with a slot anew: its old worker is gone."""
        floor = self._floor
        floor.post.hold(peer.slot)
        for box in floor.outbound.values():
            if box.slot == peer.slot:
                box.reset()
                floor.dirty[box] = None
        for task, channel in floor.inbound.values():
            if channel.slot == peer.slot:
                channel.reset()
                channel.ended = channel.ended and task.closed

    def reconnected(self, slot: int) -> None:
        """A broken connection to a living peer is back: say again what was sent and taken, for some of it was lost."""
        floor = self._floor
        for box in floor.outbound.values():
            if box.slot == slot:
                floor.post.resync(box)
                if box.end_sent:
                    floor.post.end(box)
        for _, channel in floor.inbound.values():
            if channel.slot == slot:
                self.credit(channel)

    # -- out -----------------------------------------------------------------------------------------------------

    def flush(self, *, idle: bool) -> None:
        """Send what is due: all of it when there is nothing else to do, else full and waiting outboxes."""
        floor, settings = self._floor, self._floor.program.settings
        now_ns = floor.clock.now_ns()
        limit_ns = settings.flush_us * 1000
        for box in list(floor.dirty):
            if idle or box.ended or len(box.values) >= settings.batch_max or now_ns - box.since_ns >= limit_ns:
                self._flush_box(box, now_ns)
        floor.post.post(acks=self._acks.due(now_ns, idle=idle, limit_ns=limit_ns, limit=_ACKS_NOW))

    def _flush_box(self, box: Outbox, now_ns: int) -> None:
        floor = self._floor
        if box.slot == floor.slot:
            self._hand_over(box, now_ns)
        elif floor.post.accepts(box.slot):
            floor.post.data(box)
            if box.ended and not box.values and not box.end_sent:
                floor.post.end(box)
        if not box.values and (box.end_sent or not box.ended):
            del floor.dirty[box]
        elif box.room <= 0:
            del floor.dirty[box]  # a credit brings it back

    def _hand_over(self, box: Outbox, now_ns: int) -> None:
        """Give an outbox's tuples to a task of this worker as they are, without encoding."""
        task, channel = self._floor.inbound[box.channel]
        while box.values and box.room > 0:
            self._deliver(task, channel, box.take(min(box.room, self._floor.program.settings.batch_max)), now_ns)
        if box.ended and not box.values and not box.end_sent:
            box.end_sent = True
            self._end(task, channel)
