"""State on its way from worker to worker, in parts: sent a few at a time, gathered at the other end.

Used by the kinds of operations that move something. Parts may come before the operation is known here, because they
travel between workers and its orders come from the coordinator; those of one that is over are left.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

from tailrace.program.errors import MoveError

if TYPE_CHECKING:
    from tailrace.worker.exchange.outgoing import OutgoingBuffer

#: Bytes of state per frame, and frames per round: what else the worker has to send gets in between.
_PART_BYTES = 128 * 1024
_PARTS_PER_ROUND = 8
#: In front of each part: epoch, number of the part, whether it is the last.
_PART_HEAD = struct.Struct("<II?")

#: Which state it is: the epoch of the operation, and the row of its order.
Key = tuple[int, int]


class Departure:
    """The state of one row on its way out; true while parts of it are still here."""

    def __init__(self, data: bytes) -> None:
        self._parts = deque(data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES))
        self._sent = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def send(self, outgoing: OutgoingBuffer, slot: int, key: Key) -> None:
        """Send a few parts, as far as the slot's worker takes them."""
        epoch, row = key
        for _ in range(_PARTS_PER_ROUND):
            if not self._parts or not outgoing.accepts(slot):
                return
            part = self._parts.popleft()
            outgoing.part(slot, row, _PART_HEAD.pack(epoch, self._sent, not self._parts) + part)
            self._sent += 1


class StateArrivals:
    """State on its way to this worker."""

    def __init__(self) -> None:
        self._parts: dict[Key, list[bytes]] = {}
        self._whole: set[Key] = set()
        #: Epochs of operations a part of whose state was lost on its way.
        self._broken: set[int] = set()

    def take(self, row: int, content: memoryview, closed: int) -> None:
        """Take a part in, unless its operation is over."""
        epoch, number, last = _PART_HEAD.unpack_from(content)
        if epoch <= closed:
            return
        parts = self._parts.setdefault((epoch, row), [])
        if len(parts) != number:
            self._broken.add(epoch)
            return
        parts.append(bytes(content[_PART_HEAD.size :]))
        if last:
            self._whole.add((epoch, row))

    def check(self, epoch: int) -> None:
        """Refuse an operation a part of whose state was lost."""
        if epoch in self._broken:
            raise MoveError("A part of what moves was lost on its way.", "The connection broke.")

    def whole(self, epoch: int) -> list[int]:
        """The rows of an operation whose state is here with all its parts."""
        return sorted(row for each, row in self._whole if each == epoch)

    def pop(self, key: Key) -> bytes:
        """Take a row's state out, which must be whole."""
        self._whole.discard(key)
        return b"".join(self._parts.pop(key))

    def forget(self, epoch: int) -> None:
        """An operation is over, and all before it."""
        self._whole = {key for key in self._whole if key[0] > epoch}
        self._parts = {key: parts for key, parts in self._parts.items() if key[0] > epoch}
        self._broken = {each for each in self._broken if each > epoch}
