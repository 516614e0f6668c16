"""Word count on a real small cluster, one of four hosts made four times slower, without and with Lever.

    python examples/lever_wordcount.py

Takes one to two minutes and needs tailrace-bench, whose small cluster it uses. Linux only: the slow host is made by
stopping and continuing its processes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING

import tailrace as tr
from tailrace import lever
from tailrace_bench.lever.cluster import HOSTS, standalone
from tailrace_bench.lever.slow import Slowdown
from tailrace_bench.lever.workloads import BatchLoad, wordcount

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

BATCHES = 6
LOAD = BatchLoad(rows=800, wait_us=1800, partitions=len(HOSTS), trigger_s=1.0)
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "640m",
    "spark.sql.shuffle.partitions": "4",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}


def run(spark: SparkSession, checkpoint: str) -> tuple[StreamingQuery, list[int]]:
    """Run some batches of an ordinary query and return how long each took."""
    query = (
        wordcount(spark, LOAD)
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="1 second")
        .start()
    )
    while len(query.recentProgress) < BATCHES:
        query.awaitTermination(0.1)
    query.stop()
    return query, [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress]


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with standalone(cores=1, memory="1g") as master, Slowdown() as slowdown, tempfile.TemporaryDirectory() as folder:
        spark = tr.spark_session("lever-example", master=master, config=CONFIG, lever=True)
        spark.sparkContext.setLogLevel("ERROR")
        run(spark, f"{folder}/warm-up")
        slowdown.set({HOSTS[-1]: 4.0})
        print("batch ms without Lever:", run(spark, f"{folder}/off")[1])
        lever.enable(spark)
        query, took_ms = run(spark, f"{folder}/on")
        print("batch ms with Lever:   ", took_ms)
        for row in lever.status(query).executors:
            print(f"  executor {row.executor}: share {row.share:.2f}, predicted {row.predicted_ms:.0f} ms")
        slowdown.set({})
        spark.stop()


if __name__ == "__main__":
    main()
