"""The outgoing mail of a worker: frames gathered per peer into messages, and messages that found no room.

Data waits in its outbox while a peer is stuck or being replaced; acks and credits do not wait behind data. Pure but for
the ``send`` it was given.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tailrace.batch import HEAD_PLACES
from tailrace.items import Prompt
from tailrace.transport import codec, wire
from tailrace.transport import message_codec as mail

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    from tailrace.batch import Batch
    from tailrace.items import Control
    from tailrace.sending.outbox import Outbox

#: A frame aims at no more bytes than this, so that rings and sockets keep moving.
FRAME_BYTES_AIM = 128 * 1024
ACKS_PER_FRAME_MAX = 4096
#: A message of more bytes is closed and another one begun.
MESSAGE_BYTES_AIM = 1024 * 1024


class OutgoingBuffer:
    """What this worker sends to the others."""

    def __init__(
        self, slot: int, attempt: int, send: Callable[[int, bytes], bool], batch_max: int, message_bytes_max: int
    ) -> None:
        self.slot = slot
        self.sent_bytes = 0
        self.sent_messages = 0
        self._attempt = attempt
        #: What a message begins with.
        self._head = wire.message_head(slot, attempt)
        self._send = send
        self._batch_max = batch_max
        self._message_bytes_max = message_bytes_max
        self._message_bytes_aim = min(MESSAGE_BYTES_AIM, message_bytes_max)
        #: Per peer the parts of each message; the last one still grows.
        self._frames: dict[int, list[list[bytes]]] = {}
        self._growing_bytes: dict[int, int] = {}
        self._stuck: dict[int, deque[bytes]] = {}
        self._held: set[int] = set()
        self._acks: dict[int, array[int]] = {}
        #: Acks that have not been sent yet.
        self.acks_waiting = 0
        self._value_bytes: dict[int, float] = {}

    def begin_epoch(self, epoch: int, execution: int) -> None:
        """Say in every message from now on which epoch this worker has reached; one that grows takes nothing more."""
        frame = wire.frame_head(wire.EPOCH, epoch, wire.EXECUTION.size) + wire.EXECUTION.pack(execution)
        self._head = wire.message_head(self.slot, self._attempt) + frame
        for slot in self._frames:
            self._growing_bytes[slot] = self._message_bytes_aim

    @property
    def stuck(self) -> bool:
        """Whether a message waits for room."""
        return bool(self._stuck)

    def hold(self, slot: int) -> None:
        """Forget what was on its way to a slot's old worker; what is filed from now on waits for the new one."""
        self._held.add(slot)
        self.acks_waiting -= len(self._acks.pop(slot, ())) // HEAD_PLACES
        self._frames.pop(slot, None)
        self._stuck.pop(slot, None)

    def wait_for(self, slot: int) -> None:
        """Send nothing to a slot's worker until it is open; what was filed for it stays."""
        self._held.add(slot)

    def release(self, slot: int) -> None:
        """The slot's new worker is open."""
        self._held.discard(slot)

    def holds(self, slot: int) -> bool:
        """Whether the slot's worker is being replaced."""
        return slot in self._held

    def accepts(self, slot: int) -> bool:
        """Whether data for the slot may be taken out of its outbox."""
        return slot not in self._stuck and slot not in self._held

    def writes_to(self, slot: int, *, acks: bool) -> bool:
        """Whether a message goes to the slot with the next post, so that more may travel with it."""
        return slot in self._frames or (acks and slot in self._acks)

    def ack(self, slot: int, heads: array[int]) -> None:
        """File acks for the worker that hosts the roots' source."""
        self.acks_waiting += len(heads) // HEAD_PLACES
        waiting = self._acks.get(slot)
        if waiting is None:
            self._acks[slot] = heads[:]
        else:
            waiting.extend(heads)

    def credit(self, slot: int, channel: int, consumed: int, channel_epoch: int = 0) -> None:
        """Tell a sender how many tuples of its channel were consumed in all, in this epoch of the channel."""
        self._frame(slot, wire.CREDITS, channel, wire.CREDIT.pack(consumed, channel_epoch))

    def control(self, slot: int, channel: int, item: Control) -> None:
        """Send a control item of a channel behind all that was sent to the slot before."""
        self._add(slot, wire.control_frame(channel, item))

    def part(self, slot: int, row: int, payload: bytes) -> None:
        """Send a part of what moves to the slot; it belongs to no channel but to a row of the order to move it."""
        self._frame(slot, wire.STATE, row, payload)

    def data(self, box: Outbox) -> None:
        """Send what an outbox holds, as far as its receiver has room."""
        while box.values and box.room > 0:
            per_value = self._value_bytes.get(box.channel, 64.0)
            values_max = self._batch_max
            if len(box.values) * per_value > FRAME_BYTES_AIM or box.room < values_max:
                values_max = max(1, min(values_max, box.room, int(FRAME_BYTES_AIM / per_value)))
            count = len(box.values)
            size = self.some(box, values_max)
            self._value_bytes[box.channel] = 0.5 * per_value + 0.5 * size / (count - len(box.values))

    def some(self, box: Outbox, values_max: int) -> int:
        """Send a few tuples of an outbox, whole bundles and at least one; gives the bytes that takes."""
        batch = box.take(values_max)
        first = box.slot not in self._frames
        message = mail.frame_of(box.channel, batch, self._head if first else b"")
        size = len(message) - len(self._head) if first else len(message)
        if size + len(self._head) > self._message_bytes_max:
            size = self._send_in_parts(box, batch, size)
        elif first:
            self._begin(box.slot, message)
        else:
            self._add(box.slot, message)
        box.bytes_sent += size
        if box.prompt != (box.heavy_bytes > 0):
            box.prompt = not box.prompt
            self.control(box.slot, box.channel, Prompt(box.prompt))
        return size

    def _send_in_parts(self, box: Outbox, batch: Batch, found: int) -> int:
        """Halve a batch that would be too long for one message until its parts are not; gives their bytes."""
        first, rest = batch.split(max(1, len(batch) // 2))
        if rest is None:
            raise wire.WireError(
                f"What one tuple gives to one task must fit into {self._message_bytes_max} bytes; found {found} bytes "
                f"in {len(batch)} value(s).",
                "Raise the setting frame_bytes_max, or emit less per tuple.",
            )
        size = 0
        for part in (first, rest):
            frame = mail.frame_of(box.channel, part)
            if len(frame) + len(self._head) > self._message_bytes_max:
                size += self._send_in_parts(box, part, len(frame))
            else:
                self._add(box.slot, frame)
                size += len(frame)
        return size

    def _frame(self, slot: int, kind: int, channel: int, payload: bytes) -> None:
        self._add(slot, wire.frame_head(kind, channel, len(payload)) + payload)

    def _add(self, slot: int, frame: bytes) -> None:
        """Put a frame into the message that grows for a peer, or begin another one."""
        messages = self._frames.get(slot)
        if messages is None or self._growing_bytes[slot] + len(frame) > self._message_bytes_aim:
            self._begin(slot, self._head, frame)
        else:
            messages[-1].append(frame)
            self._growing_bytes[slot] += len(frame)

    def _begin(self, slot: int, *parts: bytes) -> None:
        """Begin a message to a peer."""
        self._frames.setdefault(slot, []).append(list(parts))
        self._growing_bytes[slot] = sum(map(len, parts))

    def _frame_acks(self) -> None:
        step = ACKS_PER_FRAME_MAX * HEAD_PLACES
        for slot, heads in self._acks.items():
            for at in range(0, len(heads), step):
                self._frame(slot, wire.ACKS, 0, codec.encode_heads(heads[at : at + step]))
        self._acks.clear()
        self.acks_waiting = 0

    def dispatch(self, *, acks: bool) -> None:
        """Hand all gathered frames to the transport, one message per peer unless it grew too long."""
        if acks and self._acks:
            self._frame_acks()
        if self._stuck:
            self._retry()
        if not self._frames:
            return
        slots = [slot for slot in self._frames if slot not in self._held] if self._held else list(self._frames)
        for slot in slots:
            for parts in self._frames.pop(slot):
                self._hand_over(slot, b"".join(parts))

    def _hand_over(self, slot: int, message: bytes) -> None:
        self.sent_bytes += len(message)
        self.sent_messages += 1
        waiting = self._stuck.get(slot)
        if waiting is not None:
            waiting.append(message)
        elif not self._send(slot, message):
            self._stuck[slot] = deque((message,))

    def _retry(self) -> None:
        for slot in list(self._stuck):
            waiting = self._stuck[slot]
            while waiting and self._send(slot, waiting[0]):
                waiting.popleft()
            if not waiting:
                del self._stuck[slot]
