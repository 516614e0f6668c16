"""Real Sparks for the tests: one at a time, because a process can have one only, on loopback, with little output."""

from __future__ import annotations

import contextlib
import os
import sys

from tailrace.spark.session import end_embedded, spark_session

# Read when the JVM starts: executors must not announce the machine's own address.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

LOCAL_CLUSTER = "local-cluster[2,2,1024]"
WAIT_S = 120
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1024m",
    "spark.deploy.maxExecutorRetries": "-1",
}


@contextlib.contextmanager
def session(master=LOCAL_CLUSTER, **config):
    """Start a session with what hosting needs; ``config`` has underscores for dots."""
    extra = {key.replace("_", "."): value for key, value in config.items()}
    spark = spark_session("tailrace-tests", master=master, config=CONFIG | extra)
    try:
        yield spark
    finally:
        end_embedded(spark)
