"""Ctrl-C while a query runs: PySpark's handler cancels all jobs, the one that hosts the workers included.

Nothing could be drained then. While this process hosts workers, Ctrl-C cancels the jobs that belong to no group (those
that the user runs beside the query) and raises KeyboardInterrupt; else PySpark's handler does what it always does.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from pyspark import SparkContext


def spare_workers(context: SparkContext, hosting: Callable[[], bool]) -> None:
    """Put a handler in front of PySpark's, if that is the one in place and this is the main thread."""
    before = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread()
    if not ours or not callable(before) or not str(getattr(before, "__module__", "")).startswith("pyspark."):
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        if not hosting():
            before(number, frame)
            return
        with contextlib.suppress(Exception):  # Spark may be gone; the interrupt must come through all the same
            _cancel_groupless(context)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)


def _cancel_groupless(context: SparkContext) -> None:
    tracker = context.statusTracker()
    for job in set(tracker.getActiveJobsIds()) & set(tracker.getJobIdsForGroup(None)):
        context._jsc.sc().cancelJob(job)  # noqa: SLF001 - PySpark has no other way to cancel one job
