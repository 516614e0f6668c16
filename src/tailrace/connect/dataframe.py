"""A Spark DataFrame as a source, as far as workers and drawings know it: how rows are to arrive, and through whom.

The DataFrame itself stays on the driver. How rows come from Spark's tasks is the host's business: it gives the source a
``link`` before the query starts, and workers open their lanes through that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from tailrace.topology.contracts import Reader, Source

from .columns import Objects, bare, dicts
from .errors import ConnectorOptionError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import pyarrow as pa

    from ..clock import Clock

FORMS = ("dict", "value", "arrow")


class LaneFeed(Protocol):
    """How a worker gets the rows of a lane."""

    def open(self, lane: str, offset: int, rows: Callable[[pa.RecordBatch], list[Any]] | None, clock: Clock) -> Reader:
        """Open a lane; ``rows`` turns a batch into values, None leaves batches as they are."""
        ...


class DataFrameSource(Source[Any]):
    """See ``sources.dataframe``. Its partitions are lanes, each fed by one Spark task at a time."""

    label = "dataframe"
    movable = False

    def __init__(self, df: Any, form: Any, checkpoint: str | os.PathLike[str] | None, trigger: dict[str, Any]) -> None:
        self.df = df
        self.form = form
        self.checkpoint = None if checkpoint is None else str(checkpoint)
        self.trigger = trigger
        self.bounded = not getattr(df, "isStreaming", False)
        self.lanes = 1
        self.link: LaneFeed | None = None
        self.rows = row_maker(form)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the DataFrame behind: it lives on the driver."""
        return {**self.__dict__, "df": None}

    def partitions(self) -> list[str]:
        """Name the lanes."""
        return [f"lane-{number}" for number in range(self.lanes)]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Open a lane."""
        if self.link is None:
            raise ConnectorOptionError(
                "A DataFrame is fed by Spark, and this query is not hosted by Spark.",
                "Use tr.start with a session; in tests, tr.sources.items(...) takes its place.",
            )
        return self.link.open(partition, offset, self.rows, clock)


def row_maker(form: Any) -> Callable[[pa.RecordBatch], list[Any]] | None:
    """What turns a batch into values, for a name of FORMS or a class; None for batches as they are."""
    if form == "dict":
        return dicts
    if form == "value":
        return bare
    if form == "arrow":
        return None
    if isinstance(form, type):
        return Objects(form)
    raise ConnectorOptionError(
        f"Rows arrive as one of {', '.join(FORMS)} or as objects of a class; found {form!r}.", "Leave it out for dicts."
    )
