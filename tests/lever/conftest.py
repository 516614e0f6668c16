"""One small Spark cluster for all of Lever's tests on real Spark."""

from __future__ import annotations

import os
import sys
import time

import pytest
from pyspark import cloudpickle
from tests import sparks

import tailrace as tr
from tailrace import lever

from . import shapes

# Executors cannot import the tests.
cloudpickle.register_pickle_by_value(shapes)

EXECUTORS = 2
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.executor.memory": "768m",
    "spark.driver.memory": "768m",
    "spark.task.maxFailures": "20",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text",
}


@pytest.fixture(scope="package")
def spark(tmp_path_factory):
    sparks.stop()  # the one of other tests: a process can have one only
    events = tmp_path_factory.mktemp("events")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    master = f"local-cluster[{EXECUTORS},1,1024]"
    session = tr.spark_session("lever-tests", master=master, config=CONFIG | logged, lever=True)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _all_executors_and_lever_off(request):
    """A test before may have killed an executor; its successor needs a moment."""
    if "spark" not in request.fixturenames:
        yield
        return
    spark = request.getfixturevalue("spark")
    while len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) < 1 + EXECUTORS:
        time.sleep(0.1)
    yield
    for query in spark.streams.active:
        query.stop()
    lever.disable(spark)
