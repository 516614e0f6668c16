"""What Spark tasks, workers and the driver's feed server tell each other about a DataFrame's rows, as typed messages.

A *lane* is a partition of a DataFrame source: one Spark task at a time feeds it. Frames of rows between a task and a
worker are laid out here too; they go through a ring or a connection alike.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True)
class Ticket:
    """What a Spark task or a worker needs to find the feed server. Travels in closures; printing shows no secret."""

    feed: int
    address: tuple[str, int]
    secret: bytes = field(repr=False)
    frame_bytes_max: int
    window_rows: int
    batch: int = 0


class Way(msgspec.Struct, frozen=True):
    """How to reach the worker that has a lane."""

    host: str
    tcp: tuple[str, int]
    ring: str = ""
    probe_path: str = ""
    probe_nonce: str = ""


class LanesUp(msgspec.Struct, tag=True):
    """Worker: these lanes are open here, each from an offset on."""

    feed: int
    lanes: list[str]
    way: Way


class Ended(msgspec.Struct, tag=True):
    """FeedServer to worker: nothing more comes on any lane of the feed."""

    feed: int


class ClaimLane(msgspec.Struct, tag=True):
    """Task: I have the rows of this partition of this batch."""

    feed: int
    batch: int
    partition: int
    host: str


class Granted(msgspec.Struct, tag=True):
    """FeedServer: feed this lane. The first row has offset ``base``; rows below ``mark`` are done."""

    lane: str
    base: int
    mark: int
    serial: int
    way: Way
    #: How many rows the partition had, if an earlier attempt got to its end; else -1.
    rows: int = -1


class Busy(msgspec.Struct, tag=True):
    """FeedServer: no lane is free now; ask again, or give way after a while."""


class Await(msgspec.Struct, tag=True):
    """Task: tell me when rows beyond this offset are done, or when the lane has another worker."""

    feed: int
    lane: str
    beyond: int
    serial: int


class LaneState(msgspec.Struct, tag=True):
    """FeedServer: how a lane stands; ``serial`` grows when another worker takes it over."""

    mark: int
    serial: int
    way: Way


class Finished(msgspec.Struct, tag=True):
    """Task: all rows of my partition are done."""

    feed: int
    batch: int
    partition: int
    rows: int


class Noted(msgspec.Struct, tag=True):
    """FeedServer: so be it."""


class Over(msgspec.Struct, tag=True):
    """FeedServer: the query has ended; there is nobody to feed."""


ToDesk = LanesUp | ClaimLane | Await | Finished
FromDesk = Ended | Granted | Busy | LaneState | Noted | Over

encode = msgspec.msgpack.Encoder().encode
decode_to_desk = msgspec.msgpack.Decoder(ToDesk).decode
decode_from_desk = msgspec.msgpack.Decoder(FromDesk).decode

#: A frame of rows: kind, lane's number, offset of the first row; then a schema or a record batch.
_HEAD = struct.Struct("<BIQ")
SCHEMA, ROWS = 1, 2


def frame(kind: int, lane: int, offset: int, body: memoryview | bytes) -> bytes:
    """Lay out a frame."""
    return b"".join((_HEAD.pack(kind, lane, offset), body))


def parts(data: bytes) -> tuple[int, int, int, memoryview]:
    """Kind, lane, offset and body of a frame."""
    kind, lane, offset = _HEAD.unpack_from(data)
    return kind, lane, offset, memoryview(data)[_HEAD.size :]
