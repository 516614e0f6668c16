"""Rows as Parquet files in a folder, each row exactly once with a checkpoint. See ``sinks.parquet``.

A task writes one file after the other; with a checkpoint those of an epoch appear when it is durable, without one each
appears when it is full or the input has ended. A Parquet file is none before its end is written, so a worker that is
lost without a checkpoint takes rows along, which fails the query like any state.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.topology.contracts import Sink

from .columns import ToColumns
from .errors import OutputError
from .folders import check_writable
from .json_lines import check_empty, check_mode, remove_results
from .schemas import arrow_schema
from .staged_files import StagedFiles

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from ..topology.contracts import SinkStart
    from ..topology.operators import TaskContext

_SUFFIX = ".parquet"
#: Bytes in memory that become a row group, and bytes of a file after which the next one is begun.
GROUP_BYTES = 16 * 1024 * 1024
FILE_BYTES = 256 * 1024 * 1024


class ParquetFiles(Sink):
    """See ``sinks.parquet``."""

    label = "parquet"
    atomic = True

    def __init__(self, folder: str | os.PathLike[str], schema: Any, mode: str) -> None:
        check_mode(mode)
        self.mode = mode
        self.folder = Path(folder).expanduser().absolute()
        self.schema = arrow_schema(schema)
        self._durable = False
        self._staged: StagedFiles | None = None
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._file_bytes = 0

    # -- at the driver -------------------------------------------------------------------------------------------

    def preflight(self) -> None:
        """Refuse a folder that cannot be written, or that has results already unless it was said what to do then."""
        check_writable(self.label, self.folder)
        check_empty(self.label, self.folder, _SUFFIX, self.mode)

    def preflight_durable(self) -> None:
        """Refuse a folder that cannot be written; whose results are in it is known when the checkpoint was read."""
        check_writable(self.label, self.folder)

    def begin_from(self, start: SinkStart) -> None:
        """Look at the folder again; results of the query's own earlier starts stay."""
        if not start.resumed:
            self.begin()

    def begin(self) -> None:
        """Look at the folder again, and remove what is to be overwritten."""
        self.preflight()
        if self.mode == "overwrite":
            remove_results(self.folder, _SUFFIX)

    # -- in the tasks --------------------------------------------------------------------------------------------

    def open(self, ctx: TaskContext) -> None:
        """Get ready to write files of this task."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"{self.folder} cannot be made by a worker: {error.strerror}.",
                "Workers write files themselves: the folder must be writable on every node.",
            ) from None
        self._durable = bool(ctx.checkpoint)
        self._staged = StagedFiles(self.folder, _SUFFIX, ctx)
        self._to_columns = ToColumns(self.schema)

    def write(self, values: list[Any]) -> None:
        """Take rows in, or none of them; they reach the disk as row groups of some size."""
        if values and isinstance(values[0], pa.RecordBatch | pa.Table):
            self._held += [batch for value in values for batch in self._to_columns.fitted(value)]
        elif values:
            self._held.append(self._to_columns(values))
        self._held_bytes = sum(batch.nbytes for batch in self._held)
        if self._held_bytes >= GROUP_BYTES:
            self._write_group()
        if self._file_bytes >= FILE_BYTES:
            self._end_file()
            if not self._durable and self._staged is not None:
                self._staged.publish_now()

    def _write_group(self) -> None:
        if self._staged is None or not self._held:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._staged.next_path(), self.schema)
        self._writer.write_table(pa.Table.from_batches(self._held, self.schema))
        self._file_bytes += self._held_bytes
        self._held, self._held_bytes = [], 0

    def _end_file(self) -> None:
        self._write_group()
        if self._writer is not None:
            self._writer.close()
            self._writer, self._file_bytes = None, 0

    def prepare(self, epoch: int) -> Callable[[], object] | None:
        """End the file; those so far belong to the epoch."""
        self._end_file()
        return None if self._staged is None else self._staged.prepare(epoch)

    def commit(self, epoch: int) -> None:
        """Let the epoch's files appear."""
        if self._staged is not None:
            self._staged.commit(epoch)

    def abort(self, epoch: int) -> None:
        """Remove what earlier executions left of the epoch and later ones."""
        if self._staged is not None:
            self._staged.abort(epoch)

    def snapshot(self) -> Any:
        """The names of files that were not published; another worker goes on behind them."""
        self._end_file()
        return None if self._staged is None else self._staged.snapshot()

    def restore(self, state: Any) -> None:
        """Go on behind what another worker has written."""
        if self._staged is not None and state is not None:
            self._staged.restore(state)

    def close(self) -> None:
        """Let go of the file; what was not published stays hidden."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
