"""Messages between workers, as the worker's brain writes and reads them: batches to frames, messages to frames.

In one native pass where the values are plain and the extension was built (``native/hot_pack.c``), else by ``codec`` and
``wire``, to the same bytes. Called by ``worker.exchange.outgoing`` and ``worker.brain``.
"""

from __future__ import annotations

import sys
from typing import Any

from tailrace.batch import Batch
from tailrace.transport import codec, wire

try:
    from tailrace._hot import open_message, pack_frame
except ImportError:
    NATIVE = False
else:
    NATIVE = sys.byteorder == "little"

#: Kind, channel, and what the frame holds: a batch for data, bytes for all else.
Opened = tuple[int, int, Any]


def frame_of(channel: int, batch: Batch, before: bytes = b"") -> bytes:
    """Frame a batch of data, behind bytes that are there already, such as the head of a message."""
    if NATIVE:
        framed = pack_frame(channel, batch.values, batch.sizes, batch.heads, before)
        if framed is not None:
            return framed
    payload = codec.encode_batch(batch)
    return b"".join((before, wire.frame_head(wire.DATA, channel, len(payload)), payload))


def opened(message: bytes | memoryview) -> tuple[int, int, list[Opened]]:
    """Open a message: slot and attempt of its writer, and its frames. Data that is pickled stays as it came."""
    if not NATIVE:
        return opened_py(message)
    try:
        return open_message(message)
    except ValueError:
        opened_py(message)  # says what is wrong, if it is the message and not a batch in it
        raise


def opened_py(message: bytes | memoryview) -> tuple[int, int, list[Opened]]:
    """Open a message without native code."""
    slot, attempt = wire.sender(message)
    return slot, attempt, [(frame.kind, frame.channel, frame.payload) for frame in wire.frames(message)]


def batch_in(content: Any) -> Batch:
    """The batch of a frame of data; to be asked only for messages of a current writer, because this may unpickle."""
    return Batch(*content) if type(content) is tuple else codec.decode_batch(memoryview(content))
