"""Executors that come and go between and during batches: their shares follow, and no row is lost or doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace import lever

from . import dynamic_query
from .cluster import CountedQuery, kill_one_executor

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def carriers(enabled, counted):
    """The executors that the newest batch was split over."""
    return {row.executor for row in enabled.status(counted.query.id).executors if row.share > 0}


def wait_until(counted, condition):
    """Let batches pass until something holds; the timeout of the test is the limit."""
    while not condition():
        counted.wait_for(len(counted.values) + 1)


@pytest.mark.chaos
def test_an_executor_that_joins_gets_load(spark, tmp_path):
    enabled = lever.enable(spark, plan_timeout_ms=20_000)
    counted = CountedQuery(spark, tmp_path)
    counted.wait_for(2)
    before = carriers(enabled, counted)
    killed = kill_one_executor(spark)
    # The cluster starts another one in its place, under an id of its own.
    wait_until(counted, lambda: carriers(enabled, counted) - before)
    counted.check()
    assert killed not in carriers(enabled, counted)


def test_a_decommissioned_executor_gets_no_more_load(spark, tmp_path):
    enabled = lever.enable(spark, plan_timeout_ms=20_000)
    counted = CountedQuery(spark, tmp_path)
    counted.wait_for(2)
    leaving = min(carriers(enabled, counted))
    context, jvm = spark.sparkContext._jsc.sc(), spark.sparkContext._jvm
    info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("the test says so", jvm.scala.Option.empty())
    assert context.schedulerBackend().decommissionExecutor(leaving, info, False, False)
    counted.wait_for(len(counted.values) + 3)
    assert leaving not in carriers(enabled, counted)
    counted.check()


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows(spark, tmp_path, rows):
    """One row, as many as executors, one more: nobody waits for an empty share."""
    enabled = lever.enable(spark, plan_timeout_ms=20_000)
    counted = CountedQuery(spark, tmp_path, rows=rows)
    counted.wait_for(2)
    counted.check()
    assert enabled.status(counted.query.id).failures == {}
    assert 1 <= len(carriers(enabled, counted)) <= min(rows, 2)


def test_no_rows(spark, tmp_path):
    """A batch without input comes when a watermark moves; there is nothing to split, and that is no failure."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "empty.txt").write_text("")
    enabled = lever.enable(spark, plan_timeout_ms=20_000)
    found = []
    frame = spark.readStream.text(str(tmp_path / "in"))
    writer = frame.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    query.stop()
    assert found == []
    assert enabled.status(query.id).failures == {}


@pytest.mark.soak
def test_dynamic_allocation_grows_and_shrinks_under_lever(tmp_path):
    source, root = Path(__file__).parents[2] / "src", Path(__file__).parents[2]
    env = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{root}", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", dynamic_query.__name__, str(tmp_path)]
    done = subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["failures"] == {}
    assert max(found["carriers"]) == dynamic_query.EXECUTORS_MAX
    assert min(found["carriers"][found["carriers"].index(dynamic_query.EXECUTORS_MAX) :]) < dynamic_query.EXECUTORS_MAX
