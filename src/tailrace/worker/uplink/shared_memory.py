"""The table of a node's gate in shared memory: what each sending task has waiting, whose turn it is, the link's clock.

    head, 64 bytes
    +-----------+----------+---------------+-----------+------------+----------+---------+-------------+
    | magic u32 | rows u32 | link free i64 | last turn | last turn  | turn of  | left of | turn until  |
    |           |          | at ns         | operator  | queue i32  | queue    | it i32  | ns i64      |
    +-----------+----------+---------------+-----------+------------+----------+---------+-------------+
    row, 40 bytes
    +--------------+------------+------------+-----------+-------------+------------+----------+--------------+
    | operator i32 | flags u32, | tuples u32 | first u32 | granted and | bytes of a | since ns | refreshed ns |
    |              | 1: alone   |            |           | unsent u32  | tuple u32  | i64      | i64          |
    +--------------+------------+------------+-----------+-------------+------------+----------+--------------+

All little endian. A row's number is that of its task in the whole topology, so that workers need not agree on it. Each
worker makes a table in its folder when a limited link is set; the workers of a node use the same one (``node_peers``).
The lock is the kernel's lock on the file, which goes with its holder, so that a dead one blocks nobody.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
from typing import NamedTuple

from tailrace.sending.gate import GATE_TASKS_MAX, Cursor, Entry, Grant
from tailrace.transport.segments import SegmentError, as_segment_error, check_ours, create_file

_MAGIC = 0x54524742
_HEAD = struct.Struct("<IIqiiiiq")
_HEAD_BYTES = 64
_ROW = struct.Struct("<iIIIIIqq")
_GRANTED = struct.Struct("<I")
_GRANTED_AT = 16
_ROWS = struct.Struct("<I")
_ROWS_AT = 4
_FREE = struct.Struct("<q")
_FREE_AT = 8
TABLE_BYTES = _HEAD_BYTES + GATE_TASKS_MAX * _ROW.size
_ALONE = 1
_U32 = (1 << 32) - 1


class Turn(NamedTuple):
    """Whose turn it is, and until when the link is busy."""

    free_ns: int
    grant: Grant


class UplinkTable:
    """The table, in a file or in the memory of this process alone."""

    def __init__(self, memory: mmap.mmap, descriptor: int | None = None) -> None:
        self._memory = memory
        self._view = memoryview(memory)
        self._descriptor = descriptor

    @classmethod
    def in_memory(cls) -> UplinkTable:
        """Make one that no other process sees."""
        table = cls(mmap.mmap(-1, TABLE_BYTES))
        table.clear()
        return table

    @classmethod
    def create(cls, path: str) -> UplinkTable:
        """Make one in a file that must not be there yet, for this user alone."""
        descriptor = create_file(path)
        try:
            os.ftruncate(descriptor, TABLE_BYTES)
            table = cls(mmap.mmap(descriptor, TABLE_BYTES), descriptor)
        except OSError as error:
            os.close(descriptor)
            raise as_segment_error(error, path) from error
        table.clear()
        return table

    @classmethod
    def attach(cls, path: str) -> UplinkTable:
        """Open another worker's, if it is one and belongs to this user."""
        check_ours(path)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise as_segment_error(error, path) from error
        try:
            table = cls(mmap.mmap(descriptor, TABLE_BYTES), descriptor)
        except (OSError, ValueError) as error:  # ValueError: the file is too short
            os.close(descriptor)
            raise SegmentError(
                f"{path} was expected to be a gate's table of {TABLE_BYTES} bytes, found: {error}.",
                "It was not made by this release of Tailrace; start the query again.",
            ) from error
        if _HEAD.unpack_from(table._view)[0] != _MAGIC:
            table.close()
            raise SegmentError(f"{path} was expected to be a gate's table, found something else.")
        return table

    def close(self) -> None:
        """Let go of the memory; the file goes with its maker's folder."""
        self._view.release()
        self._memory.close()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # -- the lock ------------------------------------------------------------------------------------------------

    def lock(self) -> bool:
        """Try to be the only one at the table; false, without waiting, when another process is."""
        if self._descriptor is None:
            return True
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def unlock(self) -> None:
        """Let others at the table."""
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

    def delay(self, by_ns: int) -> None:
        """Set the link's clock right by what was sent more or less than was granted."""
        _FREE.pack_into(self._view, _FREE_AT, _FREE.unpack_from(self._view, _FREE_AT)[0] + by_ns)

    def show(self, entry: Entry, granted: int = 0) -> None:
        """Write what a queue has waiting, and how much of that it may send."""
        if entry.outbox >= _ROWS.unpack_from(self._view, _ROWS_AT)[0]:
            _ROWS.pack_into(self._view, _ROWS_AT, entry.outbox + 1)
        each = min(_U32, entry.bytes // max(1, entry.tuples))
        _ROW.pack_into(
            self._view, _at(entry.outbox),
            entry.operator, _ALONE if entry.alone else 0, min(_U32, entry.tuples), entry.first, granted, each,
            entry.since_ns, entry.refreshed_ns,
        )  # fmt: skip

    def granted(self, queue: int) -> int:
        """How much a queue may send that it has not sent yet."""
        return int(_GRANTED.unpack_from(self._view, _at(queue) + _GRANTED_AT)[0])

    def grant(self, queue: int, tuples: int) -> None:
        """Let a queue send so many tuples more."""
        _GRANTED.pack_into(self._view, _at(queue) + _GRANTED_AT, self.granted(queue) + tuples)

    def entries(self) -> dict[int, Entry]:
        """What each queue has waiting beyond what it may send already, as old as all it has."""
        rows = min(GATE_TASKS_MAX, _ROWS.unpack_from(self._view, _ROWS_AT)[0])
        found = {}
        for number, row in enumerate(_ROW.iter_unpack(self._view[_HEAD_BYTES : _at(rows)])):
            operator, flags, tuples, first, granted, each, since_ns, refreshed_ns = row
            if tuples > granted:
                left = tuples - granted
                entry = Entry(
                    number, operator, -1, left, left * each, since_ns, refreshed_ns, bool(flags & _ALONE), first
                )
                found[number] = entry._replace(first=max(0, first - granted))
        return found


def _at(queue: int) -> int:
    return _HEAD_BYTES + queue * _ROW.size
