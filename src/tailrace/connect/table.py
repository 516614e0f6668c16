"""A table as a sink: rows of a topology that Spark reads with ``format("tailrace")``, each exactly once.

Tasks append to segments in the table's folder and tell the driver, which acknowledges; so what a root gave is on disk
before the root is done. The driver decides what counts: with every batch of a streaming DataFrame, at the end of a
bounded one, or every so often where the input has no batches. With a checkpoint a task tells the driver when an epoch
is durable, and its rows count from then on.
"""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailrace.topology.contracts import Sink

from .columns import ToColumns
from .errors import ConnectorOptionError
from .folders import check_writable
from .ranges import UncommittedRanges, WrittenRange, joined
from .schemas import arrow_schema
from .spool import Segment, Spool, range_from, segment_schema
from .staged_files import DiskSync

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from ..topology.contracts import Delivery, SinkStart
    from ..topology.operators import TaskContext
    from .spool import Range


class Table(Sink):
    """See ``sinks.table``."""

    label = "table"
    idempotent = True
    atomic = True
    wants_origins = True

    def __init__(self, folder: str | os.PathLike[str], schema: Any, *, stream: str, commit_s: float) -> None:
        if not stream.isidentifier():
            raise ConnectorOptionError(
                f"The name of a table's stream must be letters, digits and underscores; found {stream!r}.",
                "Choose a name such as 'out'.",
            )
        if isinstance(commit_s, bool) or not isinstance(commit_s, int | float) or commit_s <= 0:
            raise ConnectorOptionError(
                f"commit_s must be a positive number of seconds, found {commit_s!r}.", "Leave it out for the default."
            )
        self.folder = str(Path(folder).expanduser().absolute())
        self.stream = stream
        self.schema = arrow_schema(schema)
        self.commit_s = commit_s
        #: Who decides when rows count: ``time``, ``end`` of the query, ``epoch`` of a streaming DataFrame, or
        #: ``checkpoint``.
        self.commits = "time"
        #: Set where a bounded input was left before its end: then nothing of it counts.
        self.abandoned = False
        self._ranges: UncommittedRanges | None = None
        self._lock = threading.Lock()
        self._committed_s = 0.0
        self._segment: Segment | None = None
        self._ctx: TaskContext | None = None
        self._opening = ""
        #: With a checkpoint: a name that the task keeps for good, what it has written, and what of that is of an epoch.
        self._durable = False
        self._owner = ""
        self._written: list[Range] = []
        self._prepared: dict[int, list[Range]] = {}

    def delivery(self, *, durable: bool) -> Delivery:
        """With a checkpoint rows count with its epochs; without one, repeats are found when rows are to count."""
        return "transactional" if durable else "idempotent"

    def __getstate__(self) -> dict[str, Any]:
        """Leave the driver's books behind: tasks have no use for them."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"} | {"_ranges": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    # -- in the tasks --------------------------------------------------------------------------------------------

    def open(self, ctx: TaskContext) -> None:
        """Get ready to write segments."""
        self._ctx = ctx
        self._opening = self._owner = uuid.uuid4().hex
        self._durable = bool(ctx.checkpoint)
        self._segment = Segment(Spool(self.folder, self.stream), ctx.task)
        self._to_columns = ToColumns(self.schema)
        self._whole = segment_schema(self.schema)

    def write(self, values: list[Any]) -> None:
        """Append rows that hang on no root."""
        self.write_origins(values, None)

    def write_origins(self, values: list[Any], origins: list[int] | None) -> None:
        """Append rows with the number of the bundle that each came of."""
        if values and isinstance(values[0], pa.RecordBatch | pa.Table):
            fitted = [(index, batch) for index, value in enumerate(values) for batch in self._to_columns.fitted(value)]
            for index, batch in fitted:  # all of them fit
                self._append(batch, None if origins is None else [origins[index]] * batch.num_rows)
        elif values:
            self._append(self._to_columns(values), origins)

    def _append(self, batch: pa.RecordBatch, origins: list[int] | None) -> None:
        if self._segment is None or self._ctx is None or not batch.num_rows:
            return
        column = pa.nulls(batch.num_rows, pa.uint64()) if origins is None else pa.array(origins, pa.uint64())
        part = self._segment.append(pa.RecordBatch.from_arrays([column, *batch.columns], schema=self._whole))
        if self._durable:
            self._written.append(part)
        else:
            self._ctx.emit_to_driver((self._ctx.task, self._opening, tuple(part)))

    def prepare(self, epoch: int) -> Callable[[], object] | None:
        """The rows so far belong to the epoch."""
        if not self._written:
            return None
        self._prepared[epoch], self._written = joined(self._written), []
        files = dict.fromkeys(part.file for part in self._prepared[epoch])
        return DiskSync(Spool(self.folder, self.stream).data, list(files))

    def commit(self, epoch: int) -> None:
        """Have the driver enter the rows in the table's log: it finds out whether they are there already."""
        ranges = self._prepared.pop(epoch, [])
        if ranges and self._ctx is not None:
            self._ctx.emit_to_driver((self._owner, epoch, [tuple(part) for part in ranges]))

    def abort(self, epoch: int) -> None:
        """Rows of the epoch and later ones never count."""
        self._written = []
        self._prepared = {kept: ranges for kept, ranges in self._prepared.items() if kept < epoch}

    def snapshot(self) -> Any:
        """Which rows do not count yet."""
        prepared = {epoch: [tuple(part) for part in ranges] for epoch, ranges in self._prepared.items()}
        return (self._owner, [tuple(part) for part in self._written], prepared) if self._durable else None

    def restore(self, state: Any) -> None:
        """Go on behind what the task has written elsewhere, under its name."""
        if state is not None:
            self._owner, written, prepared = state
            self._written = [range_from(part) for part in written]
            self._prepared = {epoch: [range_from(part) for part in ranges] for epoch, ranges in prepared.items()}

    def close(self) -> None:
        """Close the segment."""
        if self._segment is not None:
            self._segment.close()

    # -- at the driver -------------------------------------------------------------------------------------------

    def preflight(self) -> None:
        """Refuse a folder that cannot be written."""
        check_writable(self.label, Path(self.folder))

    def begin_from(self, start: SinkStart) -> None:
        """Open the table's folder; where the query goes on, rows that do not count yet will."""
        if start.durable:
            self.commits = "checkpoint"
        self._begin(keep_strays=start.resumed)

    def begin(self) -> None:
        """Open the table's folder and read its log."""
        self._begin(keep_strays=False)

    def _begin(self, *, keep_strays: bool) -> None:
        spool = Spool(self.folder, self.stream)
        spool.make(self.schema)
        if not keep_strays:
            spool.clear_strays()
        self._ranges = UncommittedRanges(spool)
        self.abandoned = False
        self._committed_s = time.monotonic()

    def receive(self, values: Any) -> None:
        """Take in what a task wrote."""
        ranges = self._books()
        if self.commits == "checkpoint":
            owner, epoch, parts = values
            with self._lock:
                ranges.enter(f"{owner}/{epoch}", [range_from(part) for part in parts])
            return
        task, opening, part = values
        with self._lock:
            ranges.add(WrittenRange(task, opening, range_from(part)))

    def attend(self) -> None:
        """Where time decides, commit when it is due."""
        due = self.commits == "time" and time.monotonic() - self._committed_s >= self.commit_s
        if due and self._books().waiting:
            self._commit(None, at_rest=False)

    def has(self, epoch: str) -> bool:
        """Whether a batch of input is in the table."""
        return epoch in self._books().epochs

    def commit_batch(self, epoch: str) -> None:
        """A batch of input is complete: its rows count from now on."""
        self._commit(epoch, at_rest=True)

    def finish(self, error: Exception | None) -> None:
        """The query has ended: commit what is left, unless it belongs to a batch that did not come to its end."""
        if self.commits == "epoch" or (self.commits == "end" and (error is not None or self.abandoned)):
            self._books().drop()
        elif self.commits != "checkpoint" and self._books().waiting:
            self._commit(None, at_rest=True)

    def _commit(self, epoch: str | None, *, at_rest: bool) -> None:
        self._committed_s = time.monotonic()
        with self._lock:
            self._books().commit(epoch, at_rest=at_rest)

    def _books(self) -> UncommittedRanges:
        if self._ranges is None:
            self.begin()
        return self._ranges  # type: ignore[return-value]
