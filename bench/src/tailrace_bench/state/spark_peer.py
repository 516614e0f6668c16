"""Spark's own answer to a killed Python worker: a micro-batch query with ``transformWithState`` and its checkpoint.

The same count at the same rate in the same session; the batch that fails is tried again by Spark. Called by
``recovery`` only, which has the session.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace_bench.errors import ArmError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PER_S, _KEYS = 2000, 997
#: RocksDB, Python and the first batches take their time.
_WARM_S = 20.0
#: Between two kills; what it is compared with, for its results come in batches.
PEER_BETWEEN_S, _BEFORE_S = 12.0, 8.0
_NS_PER_S = 1_000_000_000


def peer_recoveries_ms(spark: Any, kills: int) -> list[float]:
    """Of each kill the time until results came as promptly as before; empty where Spark lacks what it needs."""
    try:
        import google.protobuf  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401, PLC0415
    except ImportError:
        return []
    from .recovery import recoveries_ms  # noqa: PLC0415 - which calls this

    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _PROVIDER)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    came: dict[int, int] = {}
    killed: list[int] = []
    rng = random.Random(kills)  # noqa: S311 - it chooses workers
    with tempfile.TemporaryDirectory(prefix="tailrace-recovery-") as folder:
        query = _started(spark, folder, came)
        try:
            time.sleep(_WARM_S)
            for _ in range(kills):
                victims = python_workers(os.getpid())
                if not victims or query.exception() is not None:
                    raise ArmError("Spark's query had no Python worker to kill.", str(query.exception()))
                killed.append(time.monotonic_ns())
                os.kill(rng.choice(victims), signal.SIGKILL)
                time.sleep(PEER_BETWEEN_S)
        finally:
            query.stop()
    return recoveries_ms(came, killed, _BEFORE_S, _BEFORE_S)


def _started(spark: Any, folder: str, came: dict[int, int]) -> Any:
    from pyspark.sql import functions as columns  # noqa: PLC0415 - only with Spark

    def note(batch: Any, number: int) -> None:
        del number
        found = batch.select("number", "due").collect()
        now_ns, behind_ns = time.monotonic_ns(), time.time_ns() - time.monotonic_ns()
        for row in found:
            due_ns = int(row.due.timestamp() * _NS_PER_S) - behind_ns
            came.setdefault(due_ns + row.number % 1000, now_ns)  # several are due at once

    rate = spark.readStream.format("rate").option("rowsPerSecond", _PER_S).option("numPartitions", 2).load()
    keyed = rate.select(
        (columns.col("value") % _KEYS).alias("key"), columns.col("value").alias("number"),
        columns.col("timestamp").alias("due"),
    ).groupBy("key")  # fmt: skip
    counted = keyed.transformWithState(
        counting_processor(), "number long, count long, due timestamp", "Append", "None"
    )  # fmt: skip
    return counted.writeStream.foreachBatch(note).option("checkpointLocation", folder).start()


def counting_processor() -> Any:
    """The count as a processor of Spark's."""
    from pyspark.sql import Row  # noqa: PLC0415
    from pyspark.sql.streaming import StatefulProcessor  # noqa: PLC0415
    from pyspark.sql.types import LongType, StructField, StructType  # noqa: PLC0415

    class Counting(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self._count = handle.getValueState("count", StructType([StructField("n", LongType())]))

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's names
            del key, timerValues
            made = self._count.get()[0] if self._count.exists() else 0
            for row in rows:
                made += 1
                yield Row(number=row.number, count=made, due=row.due)
            self._count.update((made,))

        def close(self) -> None:
            pass

    return Counting()


def python_workers(pid: int) -> list[int]:
    """The Python workers below a process that have no children: those that run tasks of Spark."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(encoding="utf-8")
            except OSError:
                continue
            parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        waiting += children
        found += [child for child in children if child not in parents and _is_worker(child)]
    return found


def _is_worker(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
