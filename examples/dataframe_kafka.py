"""Kafka -> topology -> Kafka, through Spark's own connector on both sides.

    python examples/dataframe_kafka.py ADDRESS FOLDER [JARS]

Reads the topic ``in``, shouts every value and writes the topic ``out``; FOLDER keeps the table and the checkpoints, so
that a restart goes on where it stopped. The connector comes by its Maven coordinates, or as JARS, joined by commas.
"""

import signal
import sys
from typing import Any

import pyspark
from pyspark.sql import SparkSession

import tailrace as tr

COORDINATES = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def shout(row: dict[str, str]) -> dict[str, str]:
    return {"key": row["key"], "value": row["value"].upper() + "!"}


def start(spark: SparkSession, address: str, folder: str) -> tuple[tr.Query, Any]:
    """Start both halves; give the topology's query and the one that writes its rows to Kafka."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", "in")
    rows = source.option("startingOffsets", "earliest").load()
    rows = rows.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")

    flow = tr.Topology("shout")
    shouted = flow.source(tr.sources.dataframe(rows, checkpoint=f"{folder}/in")).map(shout)
    shouted.sink(tr.sinks.table(f"{folder}/table", "key string, value string"))
    query = tr.start(flow, spark=spark, workers=1)

    out = spark.readStream.format("tailrace").option("query", f"{folder}/table").load()
    writer = out.writeStream.format("kafka").option("kafka.bootstrap.servers", address).option("topic", "out")
    return query, writer.option("checkpointLocation", f"{folder}/out").start()


def main(address: str, folder: str, jars: str = "") -> None:
    connector = {"spark.jars": jars} if jars else {"spark.jars.packages": COORDINATES}
    spark = tr.spark_session("shout", config=connector)
    # PySpark's own handler of Ctrl-C cancels all jobs, those of the workers too: nothing could end in order.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    query, writing = start(spark, address, folder)
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
        writing.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
