"""A streaming query listener that shows Lever's view of every batch as it ends.

Add it with ``spark.streams.addListener(ProgressListener())``; it logs a line per executor, or calls what it is given.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StreamingQueryListener

from .apply import status_by_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from .planner import BatchStatus

logger = logging.getLogger("tailrace.lever")


def log_batch(query: str, batch: BatchStatus) -> None:
    """Write one line per executor to the log ``tailrace.lever``."""
    for row in batch.executors:
        logger.info(
            "query %s batch %d executor %s: %s, share %.3f, predicted %s ms, took %s ms, %d partitions of state",
            query,
            batch.batch,
            row.executor,
            row.node_class.value if row.node_class else "unknown",
            row.share,
            "?" if row.predicted_ms is None else round(row.predicted_ms),
            "?" if row.actual_ms is None else round(row.actual_ms),
            row.states,
        )


class ProgressListener(StreamingQueryListener):  # type: ignore[misc]  # PySpark is not checked here
    """Calls ``show(query id, batch)`` once per planned batch."""

    def __init__(self, show: Callable[[str, BatchStatus], None] = log_batch) -> None:
        self._show = show

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Show the batch that this progress is about."""
        query = str(event.progress.id)
        for batch in status_by_id(query).batches:
            if batch.batch == event.progress.batchId:
                self._show(query, batch)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  Spark's name
        """No batch, nothing to show."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Leave the history to ``lever.status``."""
