"""The one Spark that a test process can have: kept between tests that want the same, exchanged when one wants another.

Everything stays on loopback. Tests ask for it by ``session(master, **config)``; whoever starts a Spark of its own calls
``stop`` first.
"""

from __future__ import annotations

import logging
import os
import sys

from tailrace.spark.session import LIGHT, end_embedded, end_jvm, spark_session

# Read when the JVM starts: executors must not announce the machine's own address.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
# For the JVMs of programs and commands that tests start: most of what they cost is their start.
os.environ.setdefault("SPARK_SUBMIT_OPTS", LIGHT["spark.driver.extraJavaOptions"])
os.environ.setdefault("SPARK_LAUNCHER_OPTS", LIGHT["spark.driver.extraJavaOptions"])

# Where a batch is interrupted by a stop, Py4J logs Java's stack, and the log of a test that fails would end with that.
logging.getLogger("py4j").setLevel(logging.CRITICAL)

LOCAL_CLUSTER = "local-cluster[2,2,1024]"
CONFIG = {
    **LIGHT,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1024m",
    "spark.deploy.maxExecutorRetries": "-1",
}

_running = {}


def session(master=LOCAL_CLUSTER, config=None):
    """Get the session with this master and these settings besides what hosting needs."""
    wanted = (master, tuple(sorted((config or {}).items())))
    if wanted not in _running:
        _end_session()
        _running[wanted] = spark_session("tailrace-tests", master=master, config=CONFIG | (config or {}))
    return _running[wanted]


def stop():
    """End the session, if there is one, and its JVM."""
    _end_session()
    end_jvm()


def _end_session():
    while _running:
        end_embedded(_running.popitem()[1])
