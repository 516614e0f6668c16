"""The bytes of one object of a checkpoint: a head that says what it is, the content, and a digest over both.

    +------+---------+------+----------+-------------------+-----------------+
    | TRCK | version | kind | length   | content (length)  | BLAKE2b, 16 B   |
    | 4 B  | u16     | u8   | u64      |                   | of all before   |
    +------+---------+------+----------+-------------------+-----------------+

All numbers are little endian. Called by whoever writes or reads such objects; touches no store.
"""

from __future__ import annotations

import hashlib
import struct

from tailrace.checkpoint.errors import CheckpointCorruptError, CheckpointVersionError

#: Grows when a release writes what an older one cannot read; every older one is still read.
FORMAT_VERSION = 1
MANIFEST, PART, DRIVER = 1, 2, 3

_MAGIC = b"TRCK"
_HEAD = struct.Struct("<4sHBQ")
_DIGEST_BYTES = 16


def seal(kind: int, content: bytes) -> bytes:
    """Put a head in front of the content and a digest behind it."""
    head = _HEAD.pack(_MAGIC, FORMAT_VERSION, kind, len(content))
    return b"".join((head, content, _digest(head, content)))


def unseal(kind: int, data: bytes, name: str) -> memoryview:
    """The content of an object, if it is whole and of this kind; ``name`` is for whoever reads the error."""
    if len(data) < _HEAD.size:
        raise _corrupt(name, f"it has {len(data)} bytes, and its head alone takes {_HEAD.size}")
    magic, version, found, length = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise _corrupt(name, f"it begins with {magic!r} in place of {_MAGIC!r}")
    if version > FORMAT_VERSION:
        raise CheckpointVersionError(
            f"{name} was written in format {version}; this release reads formats up to {FORMAT_VERSION}.",
            "Resume with the release that wrote it, or a newer one.",
        )
    end = _HEAD.size + length
    if len(data) != end + _DIGEST_BYTES:
        raise _corrupt(name, f"it should have {end + _DIGEST_BYTES} bytes and has {len(data)}")
    view = memoryview(data)
    if bytes(view[end:]) != _digest(view[:end]):
        raise _corrupt(name, "its bytes do not give the digest that was written behind them")
    if found != kind:
        raise _corrupt(name, f"it is of kind {found} where kind {kind} was looked for")
    return view[_HEAD.size : end]


def _digest(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _corrupt(name: str, what: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{name} cannot be used: {what}.", "Was it copied in part, or changed by hand? An earlier epoch may be whole."
    )
