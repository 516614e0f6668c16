"""``format("tailrace")``: Spark reads a topology's table, in a batch or as a stream with offsets.

Spark makes these objects in Python processes of its own, so all they know is the options: the query's folder and the
stream's name. An offset is the number of log entries read, so a restart from a checkpoint reads on with the next entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from tailrace.connect.ddl import write_ddl
from tailrace.connect.errors import SpoolError
from tailrace.connect.spool import Spool, streams_of

from ..interpreter import driver_interpreter
from .state_source import StateSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from tailrace.connect.spool import Range

#: Bytes that one Spark task reads at least before another is asked for.
PARTITION_BYTES = 16 * 1024 * 1024


class RangesPartition(InputPartition):  # type: ignore[misc]
    """What one Spark task reads."""

    def __init__(self, ranges: list[Range]) -> None:
        self.ranges = ranges


class TailraceSource(DataSource):  # type: ignore[misc]
    """A table of a topology. Options: ``query``, the folder given to ``tr.sinks.table``, and ``stream``, its name."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "tailrace"

    def schema(self) -> str:
        """What a row is, from the table's folder."""
        return write_ddl(self._spool().schema())

    def _spool(self) -> Spool:
        folder = self.options.get("query", self.options.get("path", ""))
        stream = self.options.get("stream", "")
        if not folder:
            raise SpoolError(
                "format('tailrace') needs the option 'query'.", "Give the folder of tr.sinks.table(folder)."
            )
        if not stream:
            found = streams_of(folder)
            if len(found) != 1:
                raise SpoolError(
                    f"The folder {folder} has {len(found)} tables: {', '.join(found) or 'none'}.",
                    "Name one with .option('stream', ...); start the query before it is read.",
                )
            stream = found[0]
        return Spool(folder, stream)

    def reader(self, schema: Any) -> TableReader:
        """Read what is committed now."""
        del schema
        return TableReader(self._spool())

    def streamReader(self, schema: Any) -> TableStream:  # noqa: N802 - PySpark's name
        """Read entry by entry."""
        del schema
        return TableStream(self._spool())


def shares(spool: Spool, begin: int, end: int) -> list[RangesPartition]:
    """Cut the ranges of some entries into parts of a sensible size."""
    found: list[RangesPartition] = [RangesPartition([])]
    size = 0
    for number in range(begin, end):
        for part in spool.entry(number).ranges:
            if size >= PARTITION_BYTES:
                found.append(RangesPartition([]))
                size = 0
            found[-1].ranges.append(part)
            size += part.end - part.begin
    return found


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Reads a table once."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def partitions(self) -> Sequence[RangesPartition]:
        """Everything that is committed."""
        return shares(self._spool, 0, self._spool.entries())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one part."""
        return self._spool.read(partition.ranges)


class TableStream(DataSourceStreamReader):  # type: ignore[misc]
    """Reads a table as it grows."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - PySpark's name
        """Before the first entry."""
        return {"entries": 0}

    def latestOffset(self, *_: Any) -> dict[str, int]:  # noqa: N802 - PySpark's name; older releases pass nothing
        """After the newest entry."""
        return {"entries": self._spool.entries()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[RangesPartition]:
        """What lies between two offsets."""
        return shares(self._spool, start["entries"], end["entries"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one part."""
        return self._spool.read(partition.ranges)


def register(spark: Any) -> None:
    """Make ``format("tailrace")`` and ``format("tailrace-state")`` known to a session."""
    with driver_interpreter(spark.sparkContext):
        spark.dataSource.register(TailraceSource)
        spark.dataSource.register(StateSource)
