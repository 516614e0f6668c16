"""rate -> topology -> console: a streaming DataFrame in, a streaming DataFrame out.

    python examples/dataframe_rate.py FOLDER

FOLDER keeps the table and the checkpoints of both halves: stop it with Ctrl-C, start it again, and it goes on.
"""

import signal
import sys

import tailrace as tr


def main(folder: str) -> None:
    spark = tr.spark_session("rate", master="local[4]", config={"spark.sql.shuffle.partitions": "2"})
    # PySpark's own handler of Ctrl-C cancels all jobs, those of the workers too: nothing could end in order.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load().select("value")

    flow = tr.Topology("evens")
    numbers = flow.source(tr.sources.dataframe(rate, "value", checkpoint=f"{folder}/in"))
    evens = numbers.key_by(lambda n: n % 2).count()
    evens.sink(tr.sinks.table(f"{folder}/table", "odd long not null, n long not null"))
    query = tr.start(flow, spark=spark, workers=1)

    out = spark.readStream.format("tailrace").option("query", f"{folder}/table").load()
    console = out.writeStream.format("console").option("checkpointLocation", f"{folder}/out").start()
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        print("stopping")
    query.stop()
    console.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
