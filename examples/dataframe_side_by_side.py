"""The same query twice: a pandas UDF in Structured Streaming, and a topology.

    python examples/dataframe_side_by_side.py FOLDER

Both read lines from a socket at port 9999 (try ``nc -lk 9999``) and print a score per line. The pandas UDF sees a line
when the next micro-batch begins; the topology when it arrives.
"""

import sys
from typing import Any

import pandas as pd
from pyspark.sql.functions import pandas_udf

import tailrace as tr


def score(line: str) -> int:
    """What both of them do with a line."""
    return sum(map(len, line.split()))


def with_a_pandas_udf(spark: Any, folder: str) -> Any:
    @pandas_udf("long")
    def scored(lines: pd.Series) -> pd.Series:
        return lines.map(score)

    lines = spark.readStream.format("socket").option("host", "localhost").option("port", 9999).load()
    rows = lines.select("value", scored("value").alias("score"))
    return rows.writeStream.format("console").option("checkpointLocation", f"{folder}/udf").start()


def with_a_topology(spark: Any) -> tr.Query:
    flow = tr.Topology("scores")
    lines = flow.source(tr.sources.socket("localhost", 9999))
    lines.map(lambda line: (line, score(line))).sink(tr.sinks.console())
    return tr.start(flow, spark=spark, workers=1)


def main(folder: str, which: str = "topology") -> None:
    spark = tr.spark_session("side by side", master="local[2]")
    query = with_a_topology(spark) if which == "topology" else with_a_pandas_udf(spark, folder)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
