"""Helpers of the tests on real Spark: a counted query, and the executors' processes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit

from .shapes import rate

KEYS = 11


class CountedQuery:
    """A query over the rate source whose every row must arrive exactly once, in whatever batch it belongs to."""

    mode = "append"

    def __init__(self, spark, checkpoint, *, trigger="0 seconds", rows=40):
        self.values = {}
        self.rows = rows
        self.query = (
            self.frame(spark, rows)
            .writeStream.foreachBatch(self.keep)
            .outputMode(self.mode)
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime=trigger)
            .start()
        )

    def keep(self, batch, number):
        self.values[number] = Counter(row.value for row in batch.collect())

    def frame(self, spark, rows):
        return rate(spark, rows=rows, partitions=3).select("value")

    def expected(self, number):
        return Counter(range(number * self.rows, (number + 1) * self.rows))

    def wait_for(self, batches):
        while len(self.values) < batches and self.query.isActive:
            self.query.awaitTermination(0.05)
        if self.query.exception():
            raise self.query.exception()

    def check(self):
        """Stop, and hold that rows, input counts and committed offsets are what they would be without Lever."""
        self.query.stop()
        for number, values in self.values.items():
            assert values == self.expected(number)
        for progress in self.query.recentProgress:
            assert progress["numInputRows"] == self.rows
            (source,) = progress["sources"]
            assert json.loads(source["endOffset"])["offset"] == (progress["batchId"] + 1) * self.rows


class RunningCounts(CountedQuery):
    """Counts per key since the first batch: a row lost or doubled in any batch shows in every later one."""

    mode = "complete"

    def frame(self, spark, rows):
        return super().frame(spark, rows).groupBy(F.expr(f"value % {KEYS} AS key")).count()

    def keep(self, batch, number):
        self.values[number] = Counter({row.key: row["count"] for row in batch.collect()})

    def expected(self, number):
        return Counter(value % KEYS for value in range((number + 1) * self.rows))


def executor_pids(spark):
    """The JVMs of this application's executors, by executor id."""
    application = spark.sparkContext.applicationId
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "--app-id" in words and words[words.index("--app-id") + 1] == application and "--executor-id" in words:
            found[words[words.index("--executor-id") + 1]] = int(path.parent.name)
    return found


def kill_one_executor(spark, killed=()):
    """Kill the first that was not killed before: a dead one is listed until its worker has taken note."""
    while not (left := {executor: pid for executor, pid in executor_pids(spark).items() if executor not in killed}):
        time.sleep(0.05)
    executor, pid = min(left.items())
    os.kill(pid, signal.SIGKILL)
    return executor
