"""The byte layout of what workers send each other, in one place.

    message   one hand-over to the transport; a transport adds a length in front where it needs one
    +--------+---------+-------+-------+ ...
    | slot   | attempt | frame | frame |
    | u16    | u32     |
    +--------+---------+-------+-------+ ...

    frame
    +--------+---------+--------+------------------+
    | kind   | channel | length | payload (length) |
    | u8     | u32     | u32    |                  |
    +--------+---------+--------+------------------+

    payload of a control item: its fields in order (``tailrace.items``)
    end      -                          moved   channel epoch u32, slot u16      credit  consumed u64, channel epoch u32
    paused   epoch u32                  behind  epoch u32                        resync  sent u64
    prompt   on u8                      seen    either of these epochs u32

All numbers are little endian. ``slot`` and ``attempt`` say who wrote the message, so that one from a worker that has
been replaced is refused whatever transport it came by.
"""

from __future__ import annotations

import struct
from dataclasses import astuple
from typing import TYPE_CHECKING, NamedTuple

from tailrace import items
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A batch; ``codec`` has its layout.
DATA = 1
#: Acks of a worker for the sources of another; belongs to no channel.
ACKS = 3
CREDITS = 4
#: A part of what moves on its way to another worker; ``channel`` is the row of the order to move it.
STATE = 9
#: Stands first in a message of a query with checkpoints: the sender's epoch in place of the channel, and the execution.
EPOCH = 15

#: The kind and the payload of each control item.
CONTROL: dict[type[items.Control], tuple[int, struct.Struct]] = {
    items.End: (2, struct.Struct("<")),
    items.Credit: (CREDITS, struct.Struct("<QI")),
    items.Resync: (5, struct.Struct("<Q")),
    items.Paused: (6, struct.Struct("<I")),
    items.Moved: (7, struct.Struct("<IH")),
    items.Seen: (8, struct.Struct("<I")),
    items.Behind: (10, struct.Struct("<I")),
    items.Prompt: (13, struct.Struct("<?")),
}
_CONTROL_OF = {kind: (item, payload) for item, (kind, payload) in CONTROL.items()}
KINDS = frozenset({DATA, ACKS, STATE, EPOCH}) | _CONTROL_OF.keys()

_MESSAGE = struct.Struct("<HI")
_FRAME = struct.Struct("<BII")
#: For those who write and read credits without making an item of each: there is one for every few batches.
CREDIT = CONTROL[items.Credit][1]
#: The execution of a message's sender.
EXECUTION = struct.Struct("<I")
MESSAGE_HEAD_BYTES = _MESSAGE.size
FRAME_HEAD_BYTES = _FRAME.size


class WireError(TailraceError):
    """Bytes from a peer are not a message."""


class Frame(NamedTuple):
    """One frame of a message."""

    kind: int
    channel: int
    payload: memoryview


def message_head(slot: int, attempt: int) -> bytes:
    """Open a message."""
    return _MESSAGE.pack(slot, attempt)


def frame_head(kind: int, channel: int, length: int) -> bytes:
    """Open a frame."""
    return _FRAME.pack(kind, channel, length)


def control_frame(channel: int, item: items.Control) -> bytes:
    """Write a control item of a channel as a frame."""
    kind, payload = CONTROL[type(item)]
    return _FRAME.pack(kind, channel, payload.size) + payload.pack(*astuple(item))  # type: ignore[call-overload]


def control_of(kind: int, content: bytes | memoryview) -> items.Control:
    """Read the control item that a frame of this kind holds."""
    if kind not in _CONTROL_OF:
        raise WireError(f"A frame of kind {kind} holds no control item.")
    item, payload = _CONTROL_OF[kind]
    if len(content) != payload.size:
        raise WireError(f"A frame of kind {kind} has a payload of {payload.size} bytes; found {len(content)}.")
    return item(*payload.unpack(content))


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
        kind, channel, length = _FRAME.unpack_from(view, at)
        at += FRAME_HEAD_BYTES
        if kind not in KINDS or length > end - at:
            raise WireError(f"Found a frame of kind {kind} and {length} bytes with {end - at} bytes left.")
        yield Frame(kind, channel, view[at : at + length])
        at += length
