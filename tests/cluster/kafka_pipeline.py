"""Run in a process of its own by test_dataframe_kafka: the example over Kafka, fed while its broker dies once.

The connector's jars must be there when the JVM starts, so the session that the other tests share cannot be used.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import time
from pathlib import Path

import cloudpickle

import tailrace as tr

ROWS, BURST = 2000, 200
WAIT_S = 240
EXAMPLE = Path(__file__).parents[2] / "examples" / "dataframe_kafka.py"
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "768m",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
}


def example():
    spec = importlib.util.spec_from_file_location("dataframe_kafka", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    return module


def write(spark, address, begin):
    """Write a burst, again if the broker was gone meanwhile."""
    rows = spark.range(begin, begin + BURST, numPartitions=1)
    values = rows.selectExpr("CAST(id AS STRING) AS key", "concat('line ', id) AS value")
    while True:
        with contextlib.suppress(Exception):
            values.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", "in").save()
            return


def written(spark, address):
    with contextlib.suppress(Exception):  # the topic may not be there yet
        found = spark.read.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", "out").load()
        return [row.value for row in found.selectExpr("CAST(value AS STRING) AS value").collect()]
    return []


def main(address, jars, folder):
    spark = tr.spark_session("kafka", master="local-cluster[2,2,1024]", config=CONFIG | {"spark.jars": jars})
    write(spark, address, 0)
    query, writing = example().start(spark, address, folder)
    for begin in range(BURST, ROWS, BURST):
        if begin == ROWS // 2:
            sys.stdout.write("HALF\n")
            sys.stdout.flush()
        write(spark, address, begin)
    wanted = {f"LINE {number}!" for number in range(ROWS)}
    deadline_s = time.monotonic() + WAIT_S
    found = written(spark, address)
    while set(found) != wanted and time.monotonic() < deadline_s and query.isActive and writing.isActive:
        time.sleep(0.5)
        found = written(spark, address)
    failed = [str(each) for each in (query.exception(), writing.exception()) if each is not None]
    result = {"missing": len(wanted - set(found)), "foreign": len(set(found) - wanted), "rows": len(found)}
    sys.stdout.write("\n" + json.dumps(result | {"failed": failed}) + "\n")
    query.stop(now=True)
    writing.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
