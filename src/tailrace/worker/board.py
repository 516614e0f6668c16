"""The board of a node's gate in shared memory: what each sending task has waiting, whose turn it is, the link's clock.

    head, 64 bytes
    +-----------+----------+---------------+-----------+------------+----------+---------+-------------+
    | magic u32 | rows u32 | link free i64 | last turn | last turn  | grant to | left of | grant until |
    |           |          | at ns         | operator  | queue i32  | queue    | it i32  | ns i64      |
    +-----------+----------+---------------+-----------+------------+----------+---------+-------------+
    row, 40 bytes
    +--------------+-------------------+------------+-----------+-----------+----------+--------------+
    | operator i32 | flags u32, 1: the | tuples u32 | first u32 | bytes i64 | since ns | refreshed ns |
    |              | only task of its  |            |           |           | i64      | i64          |
    +--------------+-------------------+------------+-----------+-----------+----------+--------------+

All little endian. A row's number is that of its task in the whole topology, so that workers need not agree on it. Each
worker makes a board in its folder when a limited link is set; the workers of a node use the same one (``neighbours``).
The lock is the kernel's lock on the file, which goes with its holder, so that a dead one blocks nobody.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
from typing import NamedTuple

from tailrace.sending.gate import Cursor, Entry, Grant
from tailrace.transport.segments import SegmentError, as_segment_error, check_ours, create_file

ROWS_MAX = 4096
_MAGIC = 0x54524742
_HEAD = struct.Struct("<IIqiiiiq")
_HEAD_BYTES = 64
_ROW = struct.Struct("<iIIIqqq")
_ROWS = struct.Struct("<I")
_ROWS_AT = 4
BOARD_BYTES = _HEAD_BYTES + ROWS_MAX * _ROW.size
_ALONE = 1


class Turn(NamedTuple):
    """Whose turn it is, and until when the link is busy."""

    free_ns: int
    grant: Grant


class Board:
    """The board, in a file or in the memory of this process alone."""

    def __init__(self, memory: mmap.mmap, descriptor: int | None = None) -> None:
        self._memory = memory
        self._view = memoryview(memory)
        self._descriptor = descriptor

    @classmethod
    def in_memory(cls) -> Board:
        """Make one that no other process sees."""
        board = cls(mmap.mmap(-1, BOARD_BYTES))
        board.clear()
        return board

    @classmethod
    def create(cls, path: str) -> Board:
        """Make one in a file that must not be there yet, for this user alone."""
        descriptor = create_file(path)
        try:
            os.ftruncate(descriptor, BOARD_BYTES)
            board = cls(mmap.mmap(descriptor, BOARD_BYTES), descriptor)
        except OSError as error:
            os.close(descriptor)
            raise as_segment_error(error, path) from error
        board.clear()
        return board

    @classmethod
    def attach(cls, path: str) -> Board:
        """Open another worker's, if it is one and belongs to this user."""
        check_ours(path)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise as_segment_error(error, path) from error
        try:
            board = cls(mmap.mmap(descriptor, BOARD_BYTES), descriptor)
        except (OSError, ValueError) as error:  # ValueError: the file is too short
            os.close(descriptor)
            raise SegmentError(
                f"{path} was expected to be a gate's board of {BOARD_BYTES} bytes, found: {error}.",
                "It was not made by this release of Tailrace; start the query again.",
            ) from error
        if _HEAD.unpack_from(board._view)[0] != _MAGIC:
            board.close()
            raise SegmentError(f"{path} was expected to be a gate's board, found something else.")
        return board

    def close(self) -> None:
        """Let go of the memory; the file goes with its maker's folder."""
        self._view.release()
        self._memory.close()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # -- the lock ------------------------------------------------------------------------------------------------

    def lock(self) -> bool:
        """Try to be the only one at the board; false, without waiting, when another process is."""
        if self._descriptor is None:
            return True
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def unlock(self) -> None:
        """Let others at the board."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    # -- what is on it -------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Begin with nothing waiting and a free link."""
        _HEAD.pack_into(self._view, 0, _MAGIC, 0, 0, -1, -1, -1, 0, 0)

    def turn(self) -> Turn:
        """Read whose turn it is."""
        _, _, free_ns, operator, last, queue, left, until_ns = _HEAD.unpack_from(self._view)
        return Turn(free_ns, Grant(queue, left, until_ns, Cursor(operator, last)))

    def set_turn(self, free_ns: int, grant: Grant, left: int) -> None:
        """Write whose turn it is and how much of it is left."""
        rows = _ROWS.unpack_from(self._view, _ROWS_AT)[0]
        cursor = grant.cursor
        _HEAD.pack_into(
            self._view, 0, _MAGIC, rows, free_ns, cursor.operator, cursor.outbox, grant.outbox, left, grant.until_ns
        )

    def show(self, entry: Entry) -> None:
        """Write what a queue has waiting."""
        if entry.outbox >= _ROWS.unpack_from(self._view, _ROWS_AT)[0]:
            _ROWS.pack_into(self._view, _ROWS_AT, entry.outbox + 1)
        _ROW.pack_into(
            self._view, _HEAD_BYTES + entry.outbox * _ROW.size,
            entry.operator, _ALONE if entry.alone else 0, entry.tuples, entry.first, entry.bytes, entry.since_ns,
            entry.refreshed_ns,
        )  # fmt: skip

    def tuples(self, queue: int) -> int:
        """How much a queue has waiting, by what its worker last wrote."""
        return int(_ROW.unpack_from(self._view, _HEAD_BYTES + queue * _ROW.size)[2]) if queue >= 0 else 0

    def entries(self) -> list[Entry]:
        """All queues with something waiting."""
        rows = min(ROWS_MAX, _ROWS.unpack_from(self._view, _ROWS_AT)[0])
        view = self._view[_HEAD_BYTES : _HEAD_BYTES + rows * _ROW.size]
        return [
            Entry(number, operator, -1, tuples, size, since_ns, refreshed_ns, bool(flags & _ALONE), first)
            for number, (operator, flags, tuples, first, size, since_ns, refreshed_ns) in enumerate(
                _ROW.iter_unpack(view)
            )
            if tuples
        ]
