"""What workers and the driver's relay say to each other: one request, one answer, and data in pieces behind either.

Data follows the message that tells its size, as messages of ``PIECE_BYTES`` at most, without any head. Plain data: no
pickle is loaded on either side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE_BYTES = 256 * 1024
#: A request or an answer has names and a few numbers; a piece of data is the longest message there is.
MESSAGE_BYTES_MAX = 2 * PIECE_BYTES
#: Rows of a listing in one message: names have 800 bytes at most.
ROWS_PER_MESSAGE = 256


class PutRequest(msgspec.Struct, tag=True):
    """Worker: create an object, or exchange a pointer if it has this tag; so many bytes follow."""

    name: str
    size_bytes: int
    pointer: bool = False
    tag: str | None = None


class GetRequest(msgspec.Struct, tag=True):
    """Worker: read an object, or a pointer."""

    name: str
    pointer: bool = False


class DeleteRequest(msgspec.Struct, tag=True):
    """Worker: delete an object or a pointer."""

    name: str


class ListRequest(msgspec.Struct, tag=True):
    """Worker: list what is below a prefix."""

    prefix: str


class PutAnswer(msgspec.Struct, tag=True):
    """Driver: it was created or exchanged, and a pointer has this tag now; or it was not."""

    done: bool
    tag: str | None = None


class ContentAnswer(msgspec.Struct, tag=True):
    """Driver: so many bytes follow; a pointer has this tag."""

    size_bytes: int
    tag: str = ""


class DeleteAnswer(msgspec.Struct, tag=True):
    """Driver: it is gone."""


class ListAnswer(msgspec.Struct, tag=True):
    """Driver: names and sizes, and whether another message with more follows."""

    rows: list[tuple[str, int]]
    more: bool


class FailedAnswer(msgspec.Struct, tag=True):
    """Driver: the store raised this."""

    kind: str
    message: str
    hint: str


Request = PutRequest | GetRequest | DeleteRequest | ListRequest
Answer = PutAnswer | ContentAnswer | DeleteAnswer | ListAnswer | FailedAnswer

encode_message = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode


def pieces(data: bytes) -> Iterator[bytes]:
    """Cut data into messages."""
    view = memoryview(data)
    for at in range(0, len(data), PIECE_BYTES):
        yield bytes(view[at : at + PIECE_BYTES])
