"""A task's state as plain data with a version: what a move carries, of some key groups or of all; later a checkpoint.

``worker.snapshots`` takes one from a task and restores a task from one. Users' keys and values are inside as bytes that
the caller has encoded. Fields may be added with a default, which older readers leave alone; whatever would make them
read something wrong raises ``FORMAT_VERSION``. Pure.

    +-------+---------+------------------+
    | "TRS" | version | msgpack of a map |
    +-------+---------+------------------+
     3 bytes 2, little-endian
"""

from __future__ import annotations

import struct
from typing import TypeVar

import msgspec

from tailrace.state.errors import SnapshotError, SnapshotVersionError

FORMAT_VERSION = 1

_HEAD = struct.Struct("<3sH")
_MAGIC = b"TRS"
_encoder = msgspec.msgpack.Encoder()

T = TypeVar("T", bound=msgspec.Struct)


class KeyedPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """States of one operator by key: all of a task, those of some key groups, or what has changed since a cut.

    There may be several, one taken in after the other.
    """

    #: Pairs of key and value, encoded together.
    values: bytes = b""
    #: Pairs of key and encoded value, encoded together: values that were encoded one by one, as of the cut.
    encoded: bytes = b""
    #: Keys that are gone since the cut below.
    deleted: bytes = b""
    #: The key groups that the keys belong to; None is all that the task has.
    groups: list[int] | None = None
    #: The cut that this builds on; None stands by itself.
    since: int | None = None


class OperatorSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one operator of a task."""

    keyed: list[KeyedPart] = []
    #: Pending timers; there are none yet, and this is their place.
    timers: list[bytes] = []
    #: What ``snapshot()`` of the user's object gave; None where there is no such object.
    user: bytes | None = None


class GenerationSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stretch of a deduplicator's memory."""

    #: Per partition the offset of the newest root in it.
    newest: dict[int, int]
    #: What was let through, as little-endian 64-bit numbers.
    lineages: bytes
    #: Whether a replay was among them.
    replayed: bool = False
    #: What they gave, as the caller encodes it.
    outputs: bytes = b""


class DeduplicatorSnapshot(msgspec.Struct, frozen=True):
    """What a deduplicator has let through and remembers of its outputs."""

    marks: dict[int, int]
    floors: dict[int, tuple[int, int]]
    generations: list[GenerationSnapshot]


class SourceSnapshot(msgspec.Struct, frozen=True):
    """How far a source task has read: per partition the next offset, and that below which every root is complete."""

    next_offsets: dict[int, int]
    low_water: dict[int, int]


class TaskSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that a task needs to go on as of a moment between two pieces of its work."""

    stage: int
    task: int
    operators: dict[str, OperatorSnapshot] = {}
    deduplicator: DeduplicatorSnapshot | None = None
    source: SourceSnapshot | None = None
    #: Whether its operators have come to their end.
    closed: bool = False


def encode(part: msgspec.Struct) -> bytes:
    """Write a snapshot, or something that holds one, with the format's version in front."""
    buffer = bytearray(_HEAD.pack(_MAGIC, FORMAT_VERSION))
    _encoder.encode_into(part, buffer, len(buffer))
    return bytes(buffer)


def decode(data: bytes, kind: type[T]) -> T:
    """Read what ``encode`` wrote."""
    if len(data) < _HEAD.size or data[: len(_MAGIC)] != _MAGIC:
        raise SnapshotError(f"A {kind.__name__} was expected; these {len(data)} bytes are no snapshot.")
    version = _HEAD.unpack_from(data)[1]
    if version > FORMAT_VERSION:
        raise SnapshotVersionError(
            f"This snapshot has format version {version}; {FORMAT_VERSION} is the newest that is known here.",
            "Read it with the version of Tailrace that wrote it, or a later one.",
        )
    try:
        return msgspec.msgpack.decode(memoryview(data)[_HEAD.size :], type=kind)
    except msgspec.MsgspecError as error:
        raise SnapshotError(
            f"A {kind.__name__} was expected, and the bytes do not hold one: {error}.", "They were cut off or changed."
        ) from error
