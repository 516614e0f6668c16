"""What goes from worker to worker when tasks or keys move, in parts: sent a few at a time, gathered at the other end.

Used by ``mover`` and ``key_group_transfer``. Parts may come before the plan is known here, because they travel between
workers and the plan comes from the coordinator; those of a plan that is over are left.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.worker.exchange.outgoing import OutgoingBuffer

#: Bytes of a parcel per frame, and frames per round: what else the worker has to send gets in between.
_PART_BYTES = 128 * 1024
_PARTS_PER_ROUND = 8
#: In front of each part: epoch, number of the part, whether it is the last.
_PART_HEAD = struct.Struct("<II?")

#: A parcel's place among those of a plan: epoch and number.
Key = tuple[int, int]


class Outgoing:
    """One parcel on its way out; true while parts of it are still here."""

    def __init__(self, data: bytes) -> None:
        self._parts = deque(data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES))
        self._sent = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def send(self, post: OutgoingBuffer, slot: int, kind: int, key: Key) -> None:
        """Send a few parts, as far as the slot's worker takes them, in frames of this kind."""
        epoch, place = key
        for _ in range(_PARTS_PER_ROUND):
            if not self._parts or not post.accepts(slot):
                return
            part = self._parts.popleft()
            post.record(slot, kind, place, _PART_HEAD.pack(epoch, self._sent, not self._parts) + part)
            self._sent += 1


class Parcels:
    """Parcels on their way to this worker."""

    def __init__(self) -> None:
        self._parts: dict[Key, list[bytes]] = {}
        self._whole: set[Key] = set()

    def take(self, place: int, content: memoryview, closed: int) -> tuple[int, Key | None]:
        """Take a part in; gives its epoch, 0 if that is over, and its parcel, None if a part before it was lost."""
        epoch, number, last = _PART_HEAD.unpack_from(content)
        if epoch <= closed:
            return 0, None
        key = epoch, place
        parts = self._parts.setdefault(key, [])
        if len(parts) != number:
            return epoch, None
        parts.append(bytes(content[_PART_HEAD.size :]))
        if last:
            self._whole.add(key)
        return epoch, key

    def is_whole(self, key: Key) -> bool:
        """Whether all parts of a parcel are here."""
        return key in self._whole

    def whole(self) -> list[Key]:
        """The parcels that are here with all their parts."""
        return sorted(self._whole)

    def pop(self, key: Key) -> bytes:
        """Take a whole parcel out."""
        self._whole.discard(key)
        return b"".join(self._parts.pop(key))

    def forget(self, epoch: int) -> None:
        """A plan is over, and all before it."""
        self._whole = {key for key in self._whole if key[0] > epoch}
        self._parts = {key: parts for key, parts in self._parts.items() if key[0] > epoch}
