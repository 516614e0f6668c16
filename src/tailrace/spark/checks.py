"""What is looked at before a Spark job hosts workers, so that each known obstacle is named with the way around it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tailrace.transport.ring import RING_BYTES_BOUND

from . import errors

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tailrace.config import Settings

_SLOTS_WAIT_S = 15.0
#: Address space of a Python worker besides the rings it maps.
_WORKER_BYTES = 1024 * 1024 * 1024
#: What a worker's queues may hold at least, however small its executor.
_QUEUE_BYTES_MIN = 64 * 1024 * 1024


def context_of(spark: Any) -> SparkContext:
    """The session's context; a Spark Connect session has none."""
    if type(spark).__module__.startswith("pyspark.sql.connect") or not hasattr(spark, "_sc"):
        raise errors.SparkConnectError(
            f"A classic Spark session is needed, whose driver is this process; found {type(spark).__module__}.",
            "Run this program with spark-submit or with SparkSession.builder.master(...) instead of .remote(...).",
        )
    context: SparkContext = spark.sparkContext
    if context._jsc is None or context._jsc.sc().isStopped():  # noqa: SLF001 - PySpark has no other way to ask
        raise errors.StoppedSessionError(
            "A running Spark session is needed; the one given was stopped.",
            "Start another with tailrace.spark_session() or SparkSession.builder.getOrCreate(), or give none.",
        )
    return context


def check_session(context: SparkContext, workers: int, settings: Settings, beside: int = 0) -> None:
    """Raise a named error for anything about the session that would keep workers from starting or from living long.

    ``beside`` are slots that must be left free or are taken: for tasks of DataFrames, by workers of other queries.
    """
    conf = context.getConf()
    if conf.get("spark.speculation", "false") == "true":
        raise errors.SpeculationError(
            "spark.speculation is on; it would start second copies of workers, which run as long as the query.",
            "Start the session with spark.speculation=false, or run the topology in an application of its own.",
        )
    _check_pyspark_memory(conf, workers, settings)
    _check_slots(context, conf, workers, beside)


def _check_pyspark_memory(conf: Any, workers: int, settings: Settings) -> None:
    limit = conf.get("spark.executor.pyspark.memory", None)
    if limit is None:
        return
    cores = int(conf.get("spark.executor.cores", "1"))
    allowed = _bytes(limit) // max(1, cores)
    needed = _WORKER_BYTES + max(settings.ring_bytes, RING_BYTES_BOUND) * (workers + 1)
    if allowed < needed:
        raise errors.PySparkMemoryError(
            f"spark.executor.pyspark.memory={limit} leaves a worker {allowed >> 20} MiB of address space; "
            f"{needed >> 20} MiB are needed for it and the rings of {workers} workers.",
            "Raise or unset spark.executor.pyspark.memory, or lower the setting ring_bytes if it is above 16 MiB.",
        )


def queue_bytes(context: SparkContext, workers: int) -> int:
    """A quarter of the executor's memory, shared by its workers: what may wait in the queues of each."""
    conf = context.getConf()
    if _in_one_jvm(context):
        memory, executors = conf.get("spark.driver.memory", "1g"), 1
    else:
        memory = conf.get("spark.executor.pyspark.memory", None) or conf.get("spark.executor.memory", "1g")
        executors = max(1, _executors_of(context))
    per_executor = -(-workers // executors)
    return max(_QUEUE_BYTES_MIN, _bytes(memory) // 4 // per_executor)


def _executors_of(context: SparkContext) -> int:
    """How many executors have registered; the driver is in Spark's list, too."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # noqa: SLF001 - no other way to ask


def _bytes(text: str) -> int:
    """Read Spark's sizes; a bare number is MiB."""
    units = {"k": 10, "m": 20, "g": 30, "t": 40}
    text = text.strip().lower().removesuffix("b")
    if text and text[-1] in units:
        return int(text[:-1]) << units[text[-1]]
    return int(text) << 20


def _in_one_jvm(context: SparkContext) -> bool:
    master = str(context.master)
    return master.startswith("local") and not master.startswith("local-cluster")


def slots_of(context: SparkContext) -> int:
    """How many tasks the application can run at once, as far as executors have registered."""
    conf = context.getConf()
    per_task = int(conf.get("spark.task.cpus", "1"))
    master = str(context.master)
    backend = context._jsc.sc()  # noqa: SLF001 - PySpark has no other way to ask
    if _in_one_jvm(context):
        return int(backend.defaultParallelism()) // per_task
    executors = max(0, _executors_of(context))
    cores = conf.get("spark.executor.cores", None)
    if cores is None and master.startswith("local-cluster"):
        cores = master.partition("[")[2].split(",")[1]
    if cores is not None:
        return executors * (int(cores) // per_task)
    return int(backend.defaultParallelism()) // per_task


def _check_slots(context: SparkContext, conf: Any, workers: int, beside: int) -> None:
    dynamic = conf.get("spark.dynamicAllocation.enabled", "false") == "true"
    if dynamic:
        most = int(conf.get("spark.dynamicAllocation.maxExecutors", "2147483647"))
        slots = most * (int(conf.get("spark.executor.cores", "1")) // int(conf.get("spark.task.cpus", "1")))
        if slots < workers + beside:
            raise _too_few(workers, beside, slots, "Raise spark.dynamicAllocation.maxExecutors")
        return
    # Executors may still be on their way; the slots of one JVM are there from the start.
    deadline_s = time.monotonic() + (0.0 if _in_one_jvm(context) else _SLOTS_WAIT_S)
    while (slots := slots_of(context)) < workers + beside:
        if time.monotonic() > deadline_s:
            raise _too_few(workers, beside, slots, "Give the application more executors or cores")
        time.sleep(0.1)


def _too_few(workers: int, beside: int, slots: int, way_out: str) -> errors.SlotsError:
    needed = f"{workers} workers need {workers} task slots at the same time"
    if beside:
        needed = (
            f"{workers} workers and {beside} more for tasks of DataFrames and workers of other queries need "
            f"{workers + beside} task slots at the same time"
        )
    free = slots - beside
    # Fewer workers are advised only where that would do.
    fewer = f", or pass workers={free}." if 0 < free < workers else "; there is no slot left for a worker beside those."
    return errors.SlotsError(f"{needed}; the application has {slots}.", way_out + fewer)


def restarts_hint(context: SparkContext) -> str:
    """How often Spark starts a worker again that died, and how to have more: local[n] does not ask maxFailures."""
    if _in_one_jvm(context):
        return (
            f"On {context.master} Spark does not start a worker again that died, whatever spark.task.maxFailures says; "
            "use local[n,1000], or leave the session out to have an embedded local-cluster."
        )
    often = "A worker that dies often ends the job at spark.task.maxFailures (default 4)"
    return f"{often}; tailrace.spark_session() raises it."
