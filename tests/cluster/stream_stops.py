"""Run in a process of its own by test_stream_stops: streaming DataFrames are stopped again and again; tells how.

What Spark and Py4J print to stderr is what is looked at, so Spark logs here as it does for a user, and so does Python.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path

import cloudpickle
from tests.sparks import CONFIG

import tailrace as tr

WAIT_S = 120
OVER = "all queries are stopped"
#: How a stop finds its batch: let end, cut short after a moment, cut short at once.
STOPS = [("ended", 30.0, False), ("cut", 0.01, False), ("now", 30.0, True)]


def slow(row):
    time.sleep(0.01)
    return row


def batches_noted(checkpoint):
    """The numbers of the batches that Spark counts as read."""
    return sorted(int(path.name) for path in Path(checkpoint, "commits").glob("[0-9]*"))


def stop_once(spark, checkpoint, batch_end_s, *, now):
    rate = spark.readStream.format("rate").option("rowsPerSecond", 300).load().select("value")
    flow, out = tr.Topology("stops"), tr.sinks.collect()
    flow.source(tr.sources.dataframe(rate, checkpoint=checkpoint)).map(slow).sink(out)
    settings = tr.Settings(batch_end_s=batch_end_s, progress_s=0.1, register_timeout_s=200.0)
    query = tr.start(flow, spark=spark, workers=1, settings=settings)
    deadline_s = time.monotonic() + WAIT_S
    # The first batch is empty: what has come by then belongs to one that is under way.
    while not out.values and time.monotonic() < deadline_s:
        time.sleep(0.01)
    query.stop(now=now)
    offsets = sorted(int(path.name) for path in Path(checkpoint, "offsets").glob("[0-9]*"))
    return {
        "rows": len(out.values),
        "distinct": len({row["value"] for row in out.values}),
        "noted": batches_noted(checkpoint),
        "begun": offsets,
        "error": repr(query.exception()) if query.exception() else "",
    }


def main(folder, rounds):
    logging.basicConfig(level=logging.WARNING)
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    spark = tr.spark_session("stops", master="local[3]", config=CONFIG | {"spark.log.level": "WARN"})
    found = [
        {"kind": kind} | stop_once(spark, f"{folder}/{kind}-{number}", batch_end_s, now=now)
        for number in range(int(rounds))
        for kind, batch_end_s, now in STOPS
    ]
    # The end of the application is Spark's own: a killed task that ends after it may print a stack of its own there.
    sys.stderr.write(f"{OVER}\n")
    sys.stdout.write("\n" + json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
