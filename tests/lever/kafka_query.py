"""Run in a process of its own by test_kafka: a query over Kafka without and with Lever; prints what came, as JSON.

The source's jars must be there when the JVM starts, so the session that the other tests share cannot be used.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

import tailrace as tr
from tailrace import lever

ROWS = 600


def run(spark, address, checkpoint):
    found, rows = Counter(), []

    def keep(batch, number):
        found.update(f"{r.partition}/{r.offset}/{r.value}" for r in batch.collect())

    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", "lines")
    frame = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", ROWS // 3).load()
    frame = frame.selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
    query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    query.stop()
    rows = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    ends = [p["sources"][0]["endOffset"] for p in query.recentProgress if p["numInputRows"]]
    return query, {"rows": found, "input_rows": rows, "offsets": ends}


def main(address, jars, folder):
    config = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.executor.memory": "768m",
    }
    spark = tr.spark_session("lever-kafka", master="local-cluster[2,1,1024]", config=config, lever=True)
    spark.sparkContext.setLogLevel("ERROR")
    values = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS key", "concat('line ', id) AS value")
    values.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", "lines").save()
    _, off = run(spark, address, f"{folder}/off")
    enabled = lever.enable(spark, plan="even", plan_timeout_ms=20_000)
    query, on = run(spark, address, f"{folder}/on")
    status = enabled.status(query.id)
    shares = [[row.share for row in batch.executors] for batch in status.batches]
    sys.stdout.write("\n" + json.dumps({"off": off, "on": on, "failures": status.failures, "shares": shares}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
