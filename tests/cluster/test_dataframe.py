"""DataFrames through topologies on a real Spark: the rows that Spark's own functions give, whatever dies meanwhile."""

from __future__ import annotations

import collections
import os
import signal
import tempfile
from concurrent import futures
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql.functions import udf
from tests import sparks
from tests.lever.cluster import kill_one_executor
from tests.queries import PATIENT, all_open, completed, ended, ending, executor_of, pids, until

import tailrace as tr

pytestmark = pytest.mark.spark

ROWS = 100_000


@pytest.fixture
def spark(request):
    cloudpickle.register_pickle_by_value(request.module)  # Spark's own copy, for functions that Spark ships
    return sparks.session()


def shout(text):
    return text.upper() + "!"


def loud(row):
    return {"id": row["id"], "text": shout(row["text"])}


def numbered(spark, rows=ROWS, partitions=5):
    return spark.range(0, rows, numPartitions=partitions).selectExpr("id", "concat('row ', id) as text")


def drawn(**options):
    flow = tr.Topology("loud")
    flow.input(**options).map(loud).filter(lambda row: row["id"] % 10 != 3).output("id long, text string")
    return flow


def by_udf(df):
    """What Spark's own Python function makes of the same rows."""
    function = udf(shout, "string")
    return df.where("id % 10 != 3").withColumn("text", function("text"))


def rows_of(df):
    """The rows as a multiset."""
    return collections.Counter(map(tuple, df.collect()))


@pytest.mark.parametrize("inside", ["tasks", "workers"])
def test_apply_gives_the_rows_that_a_python_udf_gives(spark, inside):
    df = numbered(spark)
    found = rows_of(drawn().apply(df, inside=inside, workers=2))
    assert found == rows_of(by_udf(df))
    assert found.total() == ROWS * 9 // 10


def doubled(batch):
    """Twice every even row, as a batch function may do with Arrow batches."""
    even = batch.filter(pc.equal(pc.bit_wise_and(batch.column("id"), 1), 0))
    return pa.Table.from_batches([even, even])


@pytest.mark.parametrize("inside", ["tasks", "workers"])
def test_whole_arrow_batches_go_through(spark, inside):
    flow = tr.Topology("arrow")
    flow.input("arrow").map_batches(doubled).output("id long")
    found = flow.apply(spark.range(0, 50_000, numPartitions=3), inside=inside, workers=2)
    assert rows_of(found) == collections.Counter({(n,): 2 for n in range(0, 50_000, 2)})


def test_apply_through_keyed_workers_counts_every_row(spark):
    flow = tr.Topology("count")
    counts = flow.input("value").key_by(lambda n: n % 7).count(tasks=2)
    counts.output("digit long not null, n long")
    found = flow.apply(spark.range(7000).selectExpr("id"), workers=2)
    assert found.count() == 7000
    most = found.groupBy("digit").agg({"n": "max"}).toDF("digit", "n")
    assert {row.digit: row.n for row in most.collect()} == dict.fromkeys(range(7), 1000)


def kill_executor_when(query, ready):
    until(ready, "something to lose", query)
    os.kill(executor_of(pids(query)[1]), signal.SIGKILL)


@pytest.mark.chaos
@pytest.mark.parametrize("rows", [ROWS, pytest.param(1_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(600)])])
def test_an_executor_killed_half_way_changes_no_row(spark, tmp_path, rows):
    df = numbered(spark, rows, 8)
    flow = tr.Topology("loud")
    table = tr.sinks.table(tmp_path, "id long, text string")
    flow.source(tr.sources.dataframe(df), tasks=2).map(loud).filter(lambda row: row["id"] % 10 != 3).sink(table)
    settings = tr.Settings(**PATIENT, progress_s=0.2)
    with ending(tr.start(flow, spark=spark, workers=2, settings=settings)) as query:
        kill_executor_when(query, lambda: completed(query) > rows // 10)
        until(lambda: query._brain.restarts and all_open(query), "a worker elsewhere", query)
        ended(query)
    assert rows_of(spark.read.format("tailrace").option("query", str(tmp_path)).load()) == rows_of(by_udf(df))


def half_way(spark, partitions):
    """Whether Spark has read some partitions of the DataFrame, and not all."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    return any(stage and stage.numTasks == partitions and stage.numCompletedTasks > 1 for stage in stages)


@pytest.mark.chaos
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("inside", ["tasks", "workers"])
def test_apply_over_a_million_rows_outlives_an_executor(spark, inside):
    df = numbered(spark, 1_000_000, 16)
    with futures.ThreadPoolExecutor(1) as pool:
        applied = pool.submit(lambda: rows_of(drawn().apply(df, inside=inside, workers=2)))
        until(lambda: applied.done() or half_way(spark, 16), "some partitions")
        assert not applied.done()
        kill_one_executor(spark)
        found = applied.result(400)
    assert found == rows_of(by_udf(df))
    assert found.total() == 900_000


def broken(row):
    raise ValueError(row["id"])


def apply_folders():
    return set(Path(tempfile.gettempdir()).glob(f"tailrace-apply-{os.getpid()}-*"))


@pytest.mark.parametrize("master", ["local[4]", sparks.LOCAL_CLUSTER])
def test_apply_through_workers_leaves_no_folder_behind(master):
    spark = sparks.session(master)
    before = apply_folders()
    failing = tr.Topology("failing")
    failing.input().map(broken).output("id long")
    with pytest.raises(tr.TailraceError):
        failing.apply(numbered(spark, 100), inside="workers", workers=1)
    assert apply_folders() == before
    found = drawn().apply(numbered(spark, 1000), inside="workers", workers=1)
    if master.startswith("local["):
        assert apply_folders() == before
    assert rows_of(found).total() == 900
    assert found.where("id < 100").count() == 90
