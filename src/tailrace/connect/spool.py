"""The folder of a table: segments that tasks append to, and a log that says which parts of them count.

    FOLDER/STREAM/schema.arrow      what a row is
    FOLDER/STREAM/data/*.seg        Arrow record batches, one after the other; the first column is the row's origin
    FOLDER/STREAM/log/000...0.json  entries in order: ranges of segments that belong to the table from then on

An entry appears whole or not at all, and two writers cannot make the same one. What no entry names is no part of the
table. Sinks write, the driver commits, readers in any process need only the folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from .errors import SpoolError, WrongSchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The first column of every segment: which bundle of which root a row came of, so that repeats can be told.
ORIGIN = pa.field("__origin", pa.uint64())
SEGMENT_BYTES_MAX = 64 * 1024 * 1024


class Range(NamedTuple):
    """A part of a segment, in bytes."""

    file: str
    begin: int
    end: int
    rows: int


class LogEntry(NamedTuple):
    """One entry of the log; ``epoch`` names the batch of input it came of, if it came of one."""

    epoch: str | None
    ranges: list[Range]


class Spool:
    """One table's folder."""

    def __init__(self, folder: str, stream: str) -> None:
        self.path = Path(folder) / stream
        self.data = self.path / "data"
        self.log = self.path / "log"

    # -- the schema ----------------------------------------------------------------------------------------------

    def make(self, schema: pa.Schema) -> None:
        """Make the folder, or see that the one that is there has the same schema."""
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            self.log.mkdir(exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self._publish(self.path / "schema.arrow", schema.serialize().to_pybytes())
        except OSError as error:
            raise SpoolError(
                f"The table's folder {self.path} cannot be written: {error.strerror}.",
                "Give a folder that the driver, the workers and Spark's tasks all see.",
            ) from None
        found = self.schema()
        if not found.equals(schema):
            raise WrongSchemaError(
                f"The table in {self.path} has the schema ({', '.join(map(str, found))}); found another one.",
                "Keep the schema, or begin in a new folder.",
            )

    def schema(self) -> pa.Schema:
        """What a row is."""
        try:
            data = (self.path / "schema.arrow").read_bytes()
        except OSError:
            raise SpoolError(
                f"There is no table in {self.path}.", "Start the query first; its folder and stream name must match."
            ) from None
        return pa.ipc.read_schema(pa.py_buffer(data))

    # -- the log -------------------------------------------------------------------------------------------------

    def entries(self) -> int:
        """How many entries the log has; they are dense, so this is the next one's number too."""
        return max((int(path.stem) + 1 for path in self.log.glob("*.json")), default=0)

    def entry(self, number: int) -> LogEntry:
        """Read an entry."""
        found = json.loads((self.log / f"{number:020d}.json").read_text(encoding="utf-8"))
        return LogEntry(found["epoch"], [Range(*each) for each in found["ranges"]])

    def append(self, number: int, epoch: str | None, ranges: list[Range]) -> None:
        """Write an entry; that it exists already means that someone else writes this table."""
        for name in {each.file for each in ranges}:
            _sync(self.data / name)
        text = json.dumps({"epoch": epoch, "ranges": ranges})
        try:
            self._publish(self.log / f"{number:020d}.json", text.encode())
        except FileExistsError:
            raise SpoolError(
                f"Entry {number} of the table in {self.path} was written by someone else.",
                "Let one query at a time write a table.",
            ) from None

    def _publish(self, path: Path, data: bytes) -> None:
        """Have a file appear whole, under a name that must be free."""
        draft = self.path / f".{uuid.uuid4().hex}"
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        finally:
            draft.unlink()
        _sync(path.parent)

    def clear_strays(self) -> None:
        """Remove segments that no entry names: what an earlier query wrote and did not commit."""
        named = {each.file for number in range(self.entries()) for each in self.entry(number).ranges}
        for path in self.data.iterdir():
            if path.name not in named:
                path.unlink(missing_ok=True)

    # -- the rows ------------------------------------------------------------------------------------------------

    def read(self, ranges: list[Range], *, origins: bool = False) -> Iterator[pa.RecordBatch]:
        """Give the batches of some ranges, with the rows' origins if asked for."""
        schema = self.schema()
        whole = segment_schema(schema)
        for part in ranges:
            with (self.data / part.file).open("rb") as file:
                file.seek(part.begin)
                stream = pa.BufferReader(file.read(part.end - part.begin))
            while stream.tell() < part.end - part.begin:
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(stream), whole)
                yield batch if origins else pa.RecordBatch.from_arrays(batch.columns[1:], schema=schema)


def segment_schema(schema: pa.Schema) -> pa.Schema:
    """A segment's columns: the origin and those of the table."""
    return pa.schema([ORIGIN, *schema])


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Segment:
    """A file that one task appends batches to."""

    def __init__(self, spool: Spool, task: int) -> None:
        self._spool = spool
        self._task = task
        self._file: int | None = None
        self.name = ""
        self.end = 0

    def append(self, batch: pa.RecordBatch) -> Range:
        """Append a batch; it has reached the operating system when this returns."""
        if self._file is None or self.end > SEGMENT_BYTES_MAX:
            self._roll()
        data = batch.serialize()
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]  # type: ignore[arg-type]
        begin, self.end = self.end, self.end + data.size
        return Range(self.name, begin, self.end, batch.num_rows)

    def _roll(self) -> None:
        self.close()
        self.name = f"{self._task:05d}-{uuid.uuid4().hex}.seg"
        try:
            self._file = os.open(
                self._spool.data / self.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644
            )
        except OSError as error:
            raise SpoolError(
                f"A worker cannot write to the table's folder {self._spool.data}: {error.strerror}.",
                "Give a folder that the driver, the workers and Spark's tasks all see.",
            ) from None
        self.end = 0

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def log_state(spool: Spool) -> tuple[int, set[str]]:
    """The next entry's number and the epochs that are committed."""
    count = spool.entries()
    epochs = {spool.entry(number).epoch for number in range(count)}
    return count, {epoch for epoch in epochs if epoch is not None}


def streams_of(folder: str) -> list[str]:
    """The tables that lie in a query's folder."""
    try:
        return sorted(path.parent.name for path in Path(folder).glob("*/schema.arrow"))
    except OSError:
        return []


def range_from(row: Any) -> Range:
    """A range as it came over the wire."""
    return Range(*row)
