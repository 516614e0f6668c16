"""Workers as long-lived tasks of one ordinary Spark stage, submitted from a thread of the driver.

An ordinary stage, not a barrier: when a worker or an executor dies Spark restarts only what it hosted. Workers that
join a running query come as a further job.
"""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from . import entry
from .checks import check_session, context_of, queue_bytes, restarts_hint
from .errors import HostingJobError
from .interpreter import driver_interpreter, interpreter_error, why_no_worker
from .interrupts import spare_workers

if TYPE_CHECKING:
    from tailrace.config import Settings
    from tailrace.program.boot import Boot

_REASON_CHARS_MAX = 600
_WATCH_S = 0.5
#: How long a cancelled job may take: Spark kills a Python that does not listen after two seconds.
_CANCEL_S = 5.0
#: Slots that running queries have taken, per application.
_hosted: Counter[str] = Counter()


class SparkHost:
    """Starts ``workers`` tasks on a session and keeps them until the query ends."""

    def __init__(self, spark: Any, workers: int, settings: Settings, *, beside: int = 0) -> None:
        """``beside`` is how many slots must be left for tasks of DataFrames."""
        self.workers = workers
        self._settings = settings
        self._beside = beside
        self.spark = spark
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
        self._jobs: list[threading.Thread] = []
        self._described = f"Spark {self._context.version}, {self._context.master}, {workers} tasks"

    def sized(self, settings: Settings) -> Settings:
        """Settle what is a share of an executor's memory."""
        if settings.queue_bytes:
            return settings
        return replace(settings, queue_bytes=queue_bytes(self._context, self.workers))

    def launch(self, boot: Boot) -> None:
        """Submit the job from a thread of its own."""
        cloudpickle.register_pickle_by_value(entry)
        spare_workers(self._context, lambda: bool(_hosted.total()))
        self._submit(boot, list(range(self.workers)))
        threading.Thread(target=self._watch_start, name="tailrace-job-watch", daemon=True).start()

    def add(self, boot: Boot, slots: list[int]) -> None:
        """Submit a further job for workers that join; refused where the application has no room for them."""
        taken = self._beside + _hosted.get(self._application, 0)
        check_session(self._context, len(slots), self._settings, taken)
        self._submit(boot, slots)

    def _submit(self, boot: Boot, slots: list[int]) -> None:
        _hosted[self._application] += len(slots)
        job = threading.Thread(target=self._run, args=(boot, slots), name="tailrace-job", daemon=True)
        self._jobs.append(job)
        job.start()

    def _run(self, boot: Boot, slots: list[int]) -> None:
        context = self._context
        host_worker, payload = entry.host_worker, pickle.dumps(boot)
        try:
            # What Spark's pages show of the job.
            context.setJobGroup(self._group, f"tailrace {boot.name} (query {boot.query})", interruptOnCancel=False)
            places = context.parallelize(slots, len(slots))
            with driver_interpreter(context):
                hosting = places.mapPartitionsWithIndex(lambda at, rows: host_worker(slots[at], rows, payload))
                _ = hosting._jrdd  # noqa: SLF001 - here PySpark decides which Python runs it
            reasons = [why for _, why in hosting.collect() if why]
            if reasons:
                self._failure = interpreter_error(context, reasons[0])
            elif not self._stopping and 0 in slots:  # workers that joined may leave again, the first one never does
                self._failure = HostingJobError("The Spark job that hosts the workers ended by itself.")
        except Exception as error:  # noqa: BLE001 - Py4J wraps whatever Spark throws
            if not self._stopping:
                self._failure = self._named(error)
        finally:
            _hosted[self._application] -= len(slots)

    def _named(self, error: Exception) -> Exception:
        text = str(error)
        if "No module named 'tailrace'" in text:
            return interpreter_error(self._context, "No module named 'tailrace'")
        return HostingJobError(
            f"The Spark job that hosts the workers failed: {text[:_REASON_CHARS_MAX]}",
            f"Look at the executors' logs. {restarts_hint(self._context)}",
        )

    def _watch_start(self) -> None:
        """Look for tasks whose Python cannot be a worker: Spark would start them again and again, up to its limit."""
        deadline_s, wait_s = time.monotonic() + self._settings.register_timeout_s, _WATCH_S
        while not self._stopping and self._failure is None and time.monotonic() < deadline_s:
            try:
                reason = why_no_worker(self._context, self._group)
            except Exception:  # noqa: BLE001 - it only makes a failure known sooner; the job itself says so in the end
                return
            if reason:
                self._failure = interpreter_error(self._context, reason)
                return
            time.sleep(wait_s)
            wait_s *= 1.5  # the longer nothing is found, the less there is to find

    def failure(self) -> Exception | None:
        """Why the job no longer hosts workers; a task that ended at once has said why."""
        return self._failure

    def stop(self, timeout_s: float) -> None:
        """Wait for the tasks to end by themselves, then cancel the job."""
        self._stopping = True
        if not self._join(timeout_s) and self._context._jsc is not None:  # noqa: SLF001 - None once stopped
            self._context.cancelJobGroup(self._group)
            self._join(max(timeout_s, _CANCEL_S))

    def _join(self, timeout_s: float) -> bool:
        """Wait for all jobs; tells whether they have ended."""
        deadline_s = time.monotonic() + timeout_s
        for job in self._jobs:
            job.join(max(0.0, deadline_s - time.monotonic()))
        return not any(job.is_alive() for job in self._jobs)

    def describe(self) -> str:
        """One line on the host; the session may be gone by now."""
        return self._described
