"""Workers as long-lived tasks of one ordinary Spark stage, submitted from a thread of the driver.

An ordinary stage, not a barrier: when a worker or an executor dies Spark restarts only what it hosted.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from . import entry
from .checks import check_session, context_of
from .errors import HostingJobError, NotOnExecutorsError

if TYPE_CHECKING:
    from tailrace.config import Settings
    from tailrace.worker.main import Boot

_REASON_CHARS_MAX = 600
#: Slots that running queries have taken, per application.
_hosted: Counter[str] = Counter()


class SparkHost:
    """Starts ``workers`` tasks on a session and keeps them until the query ends."""

    def __init__(self, spark: Any, workers: int, settings: Settings, *, beside: int = 0) -> None:
        """``beside`` is how many slots must be left for tasks of DataFrames."""
        self.workers = workers
        self._context = context_of(spark)
        check_session(self._context, workers, settings, beside + _hosted.get(self._context.applicationId, 0))
        conf = self._context.getConf()
        self.driver_host = str(conf.get("spark.driver.host", "127.0.0.1"))
        self.bind_host = str(conf.get("spark.driver.bindAddress", self.driver_host))
        self._application = str(self._context.applicationId)
        self.session = str(self._context.applicationId)
        self._group = f"tailrace-{uuid.uuid4()}"
        self._failure: Exception | None = None
        self._stopping = False
        self._ended = threading.Event()

    def launch(self, boot: Boot) -> None:
        """Submit the job from a thread of its own."""
        cloudpickle.register_pickle_by_value(entry)
        payload = pickle.dumps(boot)
        _hosted[self._application] += self.workers
        threading.Thread(target=self._run, args=(boot.query, payload), name="tailrace-job", daemon=True).start()

    def _run(self, query: str, payload: bytes) -> None:
        context = self._context
        host_worker = entry.host_worker
        try:
            context.setJobGroup(self._group, f"tailrace query {query}", interruptOnCancel=False)
            slots = context.parallelize(range(self.workers), self.workers)
            told = slots.mapPartitionsWithIndex(lambda slot, rows: host_worker(slot, rows, payload)).collect()
            reasons = [why for _, why in told if why]
            if reasons:
                self._failure = _not_on_executors(reasons[0])
            elif not self._stopping:
                self._failure = HostingJobError("The Spark job that hosts the workers ended by itself.")
        except Exception as error:  # noqa: BLE001 - Py4J wraps whatever Spark throws
            if not self._stopping:
                self._failure = self._named(error)
        finally:
            _hosted[self._application] -= self.workers
            self._ended.set()

    def _named(self, error: Exception) -> Exception:
        text = str(error)
        if "No module named 'tailrace'" in text:
            return _not_on_executors("No module named 'tailrace'")
        return HostingJobError(
            f"The Spark job that hosts the workers failed: {text[:_REASON_CHARS_MAX]}",
            "Look at the executors' logs. A worker that dies often ends the job at spark.task.maxFailures (default 4); "
            "tailrace.spark_session() raises it.",
        )

    def failure(self) -> Exception | None:
        """Why the job no longer hosts workers; a task that ended at once has said why."""
        return self._failure

    def stop(self, timeout_s: float) -> None:
        """Wait for the tasks to end by themselves, then cancel the job."""
        self._stopping = True
        if not self._ended.wait(timeout_s):
            self._context.cancelJobGroup(self._group)
            self._ended.wait(timeout_s)

    def describe(self) -> str:
        """One line on the host."""
        return f"Spark {self._context.version}, {self._context.master}, {self.workers} tasks"


def _not_on_executors(reason: str) -> NotOnExecutorsError:
    return NotOnExecutorsError(
        f"Executors must be able to import tailrace; one said {reason!r}.",
        "Ship the driver's environment to the executors; docs/deploy.md says how.",
    )
