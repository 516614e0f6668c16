"""The outgoing mail of a worker: frames gathered per peer into messages, and messages that found no room.

Data waits in its outbox while a peer is stuck or being replaced; acks and credits do not wait behind data. Pure but for
the ``send`` it was given.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from tailrace.transport import codec, wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.sending.outbox import Outbox

_encode = msgspec.msgpack.Encoder().encode

#: A frame aims at no more bytes than this, so that rings and sockets keep moving.
FRAME_BYTES_AIM = 128 * 1024
ACKS_PER_FRAME_MAX = 4096


class PostOffice:
    """What this worker sends to the others."""

    def __init__(self, slot: int, attempt: int, send: Callable[[int, bytes], bool], batch_max: int) -> None:
        self.slot = slot
        self.sent_bytes = 0
        self.sent_messages = 0
        self._head = wire.message_head(slot, attempt)
        self._send = send
        self._batch_max = batch_max
        self._frames: dict[int, list[bytes]] = {}
        self._stuck: dict[int, deque[bytes]] = {}
        self._held: set[int] = set()
        self._acks: dict[int, tuple[list[int], list[int], list[int]]] = {}
        self._value_bytes: dict[int, float] = {}

    @property
    def stuck(self) -> bool:
        """Whether a message waits for room."""
        return bool(self._stuck)

    @property
    def acks_waiting(self) -> int:
        """Acks that have not been sent yet."""
        return sum(len(roots) for roots, _, _ in self._acks.values())

    def hold(self, slot: int) -> None:
        """Forget what was on its way to a slot's old worker; what is filed from now on waits for the new one to open."""
        self._held.add(slot)
        self._acks.pop(slot, None)
        self._frames.pop(slot, None)
        self._stuck.pop(slot, None)

    def release(self, slot: int) -> None:
        """The slot's new worker is open."""
        self._held.discard(slot)

    def accepts(self, slot: int) -> bool:
        """Whether data for the slot may be taken out of its outbox."""
        return slot not in self._stuck and slot not in self._held

    def ack(self, slot: int, roots: list[int], incs: list[int], xors: list[int]) -> None:
        """File acks for the worker that hosts the roots' source."""
        columns = self._acks.get(slot)
        if columns is None:
            columns = self._acks[slot] = ([], [], [])
        columns[0].extend(roots)
        columns[1].extend(incs)
        columns[2].extend(xors)

    def credit(self, slot: int, channel: int, consumed: int) -> None:
        """Tell a sender how many tuples of its channel were consumed in all."""
        self._frame(slot, wire.CREDITS, channel, 0, consumed.to_bytes(8, "little"))

    def data(self, box: Outbox) -> None:
        """Send what an outbox holds, as far as its receiver has room."""
        while box.values and box.room > 0:
            per_value = self._value_bytes.get(box.channel, 64.0)
            batch = box.take(max(1, min(self._batch_max, box.room, int(FRAME_BYTES_AIM / per_value))))
            payload = codec.encode_batch(batch)
            self._value_bytes[box.channel] = 0.5 * per_value + 0.5 * len(payload) / len(batch)
            box.bytes_sent += len(payload)
            self._frame(box.slot, wire.DATA, box.channel, box.serial, payload)

    def end(self, box: Outbox) -> None:
        """Say that nothing more comes on a channel."""
        box.end_sent = True
        self._frame(box.slot, wire.END, box.channel, box.serial, b"")

    def resync(self, box: Outbox) -> None:
        """Tell a receiver how many tuples of a channel were sent in all."""
        self._frame(box.slot, wire.RESYNC, box.channel, box.serial, box.sent.to_bytes(8, "little"))

    def _frame(self, slot: int, kind: int, channel: int, serial: int, payload: bytes) -> None:
        frames = self._frames.get(slot)
        if frames is None:
            frames = self._frames[slot] = [self._head]
        frames.append(wire.frame_head(kind, channel, serial, len(payload)))
        frames.append(payload)

    def _frame_acks(self) -> None:
        for slot, (roots, incs, xors) in self._acks.items():
            for at in range(0, len(roots), ACKS_PER_FRAME_MAX):
                end = at + ACKS_PER_FRAME_MAX
                self._frame(slot, wire.ACKS, 0, 0, _encode((roots[at:end], incs[at:end], xors[at:end])))
        self._acks.clear()

    def post(self, *, acks: bool) -> None:
        """Hand all gathered frames to the transport, one message per peer."""
        if acks and self._acks:
            self._frame_acks()
        if self._stuck:
            self._retry()
        if not self._frames:
            return
        for slot in [slot for slot in self._frames if slot not in self._held]:
            message = b"".join(self._frames.pop(slot))
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
