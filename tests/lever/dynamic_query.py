"""Run in a process of its own by test_executors: a query on a session with dynamic allocation; prints what was seen.

Whether executors are allocated dynamically is decided when the context starts, so the session that the other tests
share cannot be used.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit
from tests.lever import cluster
from tests.lever.conftest import CONFIG
from tests.lever.shapes import rate

import tailrace as tr
from tailrace import lever

EXECUTORS_MAX = 3
BUSY_S, IDLE_S = 2, 3
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": str(EXECUTORS_MAX),
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": f"{IDLE_S}s",
}


class Busy(cluster.CountedQuery):
    """Whole numbers that take so long that tasks of one executor wait."""

    def frame(self, spark, rows):
        wait_s = BUSY_S / rows

        def work(value):
            time.sleep(wait_s)
            return value

        return rate(spark, rows=rows, partitions=EXECUTORS_MAX).select(F.udf(work, "long")("value").alias("value"))


def main(folder):
    master = f"local-cluster[{EXECUTORS_MAX},1,1024]"
    spark = tr.spark_session("lever-dynamic", master=master, config=CONFIG | DYNAMIC, lever=True)
    spark.sparkContext.setLogLevel("ERROR")
    enabled = lever.enable(spark, plan_timeout_ms=20_000)
    carriers = []

    def watch(counted, until):
        while not until(carriers):
            counted.wait_for(len(counted.values) + 1)
            rows = enabled.status(counted.query.id).executors
            carriers.append(sum(row.share > 0 for row in rows))
        counted.check()

    watch(Busy(spark, f"{folder}/busy"), lambda seen: EXECUTORS_MAX in seen)
    # With long rests between batches executors are idle for longer than they may be.
    idle = cluster.CountedQuery(spark, f"{folder}/idle", trigger=f"{3 * IDLE_S} seconds")
    watch(idle, lambda seen: seen[-1] < EXECUTORS_MAX)
    failures = enabled.status(idle.query.id).failures
    sys.stdout.write("\n" + json.dumps({"carriers": carriers, "failures": failures}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
