"""Streaming DataFrames in and out of a topology on a real Spark: stopped, resumed, killed, and every row there once."""

from __future__ import annotations

import os
import signal

import pytest
from pyspark import cloudpickle
from tests import sparks
from tests.queries import PATIENT, all_open, ending, executor_of, pids, until

import tailrace as tr

pytestmark = pytest.mark.spark

PER_S = 2000


@pytest.fixture
def spark(request):
    cloudpickle.register_pickle_by_value(request.module)  # Spark's own copy, for functions that Spark ships
    return sparks.session()


def square(row):
    return {"value": row["value"], "square": row["value"] ** 2}


class Pipeline:
    """rate -> topology -> format("tailrace") -> Parquet, in one program, with its folders."""

    def __init__(self, spark, folder):
        self.spark = spark
        self.table, self.parquet = str(folder / "table"), str(folder / "parquet")
        self.checkpoints = str(folder / "in"), str(folder / "out")

    def start(self):
        rate = self.spark.readStream.format("rate").option("rowsPerSecond", PER_S).option("numPartitions", 2).load()
        flow = tr.Topology("squares")
        rows = flow.source(tr.sources.dataframe(rate, checkpoint=self.checkpoints[0]), tasks=2)
        schema = "value long not null, square long"
        rows.map(square).filter(lambda row: row["value"] >= 0).sink(tr.sinks.table(self.table, schema))
        settings = tr.Settings(**PATIENT, progress_s=0.2)
        return tr.start(flow, spark=self.spark, workers=2, settings=settings)

    def read(self):
        frame = self.spark.readStream.format("tailrace").option("query", self.table).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", self.checkpoints[1])
        return writer.start(self.parquet)

    def written(self):
        return self.spark.read.format("tailrace").option("query", self.table).load()

    def committed(self):
        return self.written().count()


def run_until(pipeline, rows, between=lambda query: None):
    with ending(pipeline.start()) as query:
        reading = pipeline.read()
        try:
            between(query)
            until(lambda: pipeline.committed() >= rows, f"{rows} rows", query)
        finally:
            query.stop()
            reading.stop()


def kill_an_executor(query):
    os.kill(executor_of(pids(query)[1]), signal.SIGKILL)
    until(lambda: query._brain.restarts and all_open(query), "a worker elsewhere", query)


@pytest.mark.parametrize(
    ("seconds", "between"),
    [(1, lambda query: None), pytest.param(5, kill_an_executor, marks=[pytest.mark.soak, pytest.mark.chaos])],
    ids=["stopped", "killed"],
)
def test_stop_and_resume_lose_nothing_and_double_nothing(spark, tmp_path, seconds, between):
    pipeline = Pipeline(spark, tmp_path)
    run_until(pipeline, seconds * PER_S)
    first = pipeline.committed()
    run_until(pipeline, first + seconds * PER_S, between)
    reading = pipeline.read()
    reading.processAllAvailable()
    reading.stop()
    values = sorted(row.value for row in pipeline.written().collect())
    assert values == list(range(len(values)))
    assert len(values) >= first + seconds * PER_S
    rows = sorted((row.value, row.square) for row in spark.read.parquet(pipeline.parquet).collect())
    assert rows == [(value, value**2) for value in values]
