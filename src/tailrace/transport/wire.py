"""The byte layout of what workers send each other, in one place.

    message   one hand-over to the transport; a transport adds a length in front where it needs one
    +--------+---------+-------+-------+ ...
    | slot   | attempt | frame | frame |
    | u16    | u32     |
    +--------+---------+-------+-------+ ...

    frame
    +--------+---------+--------+--------+------------------+
    | kind   | channel | serial | length | payload (length) |
    | u8     | u32     | u32    | u32    |                  |
    +--------+---------+--------+--------+------------------+

All numbers are little endian. ``slot`` and ``attempt`` say who wrote the message, so that one from a worker that has
been replaced is refused whatever transport it came by. ``serial`` counts the frames of a channel: a gap is a loss.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = 1
END = 2
ACKS = 3
CREDITS = 4
RESYNC = 5
#: Nothing more comes on this channel until its receiving task has moved: the epoch of the plan.
PAUSED = 6
#: What comes next on this channel comes from another slot: the channel's new epoch and that slot.
MOVED = 7
#: All that came on this channel before ``MOVED`` is here: the epoch.
SEEN = 8
#: A part of a task on its way to another worker; ``channel`` is the task's place in the plan.
STATE = 9
#: What comes next on this channel comes after the key groups of its sending task have moved: the epoch of the plan.
BEHIND = 10
#: All that came on this channel before ``BEHIND`` is here: the epoch.
BEHIND_SEEN = 11
#: A part of what goes with moving key groups; ``channel`` is the row of the plan.
KEYS = 12
#: Whether to credit whatever is taken at once, because the sender waits for bytes: 1, or 0 when it no longer does.
PROMPT = 13
#: What is said while tasks move, and while key groups do.
MOVING = frozenset({PAUSED, MOVED, SEEN, STATE})
MOVING_KEYS = frozenset({BEHIND, BEHIND_SEEN, KEYS})
KINDS = frozenset({DATA, END, ACKS, CREDITS, RESYNC, PROMPT}) | MOVING | MOVING_KEYS

_MESSAGE = struct.Struct("<HI")
_FRAME = struct.Struct("<BIII")
#: What a credit says: tuples consumed in all, and the epoch of the channel in which they are counted.
CREDIT = struct.Struct("<QI")
MESSAGE_HEAD_BYTES = _MESSAGE.size
FRAME_HEAD_BYTES = _FRAME.size


class WireError(TailraceError):
    """Bytes from a peer are not a message."""


class Frame(NamedTuple):
    """One frame of a message."""

    kind: int
    channel: int
    serial: int
    payload: memoryview


def message_head(slot: int, attempt: int) -> bytes:
    """Open a message."""
    return _MESSAGE.pack(slot, attempt)


def frame_head(kind: int, channel: int, serial: int, length: int) -> bytes:
    """Open a frame."""
    return _FRAME.pack(kind, channel, serial & 0xFFFFFFFF, length)


def sender(message: bytes | memoryview) -> tuple[int, int]:
    """Read slot and attempt of the writer."""
    if len(message) < MESSAGE_HEAD_BYTES:
        raise WireError(f"A message has at least {MESSAGE_HEAD_BYTES} bytes; found {len(message)}.")
    slot, attempt = _MESSAGE.unpack_from(message)
    return slot, attempt


def frames(message: bytes | memoryview) -> Iterator[Frame]:
    """Walk over the frames of a message; lengths are checked against what is there."""
    view = memoryview(message)
    at, end = MESSAGE_HEAD_BYTES, len(view)
    while at < end:
        if end - at < FRAME_HEAD_BYTES:
            raise WireError(f"A frame's head has {FRAME_HEAD_BYTES} bytes; found {end - at}.")
        kind, channel, serial, length = _FRAME.unpack_from(view, at)
        at += FRAME_HEAD_BYTES
        if kind not in KINDS or length > end - at:
            raise WireError(f"Found a frame of kind {kind} and {length} bytes with {end - at} bytes left.")
        yield Frame(kind, channel, serial, view[at : at + length])
        at += length
