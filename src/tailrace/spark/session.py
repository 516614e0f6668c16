"""A Spark session that suits long-lived workers: what hosting needs is set before the JVM starts.

``spark_session`` is public; ``embedded`` is what ``tr.start`` uses when it is given no session.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import JavaMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

#: What hosting needs; docs/deploy.md gives the reasons.
HOSTING: dict[str, str] = {
    "spark.task.maxFailures": "1000",
    "spark.speculation": "false",
    "spark.python.worker.killOnIdleTimeout": "false",
}
_QUIET: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_EXECUTOR_MIB = 1024
_EXECUTORS = 2


def spark_session(
    name: str = "tailrace", *, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """Start (or get) a session with what hosting needs set; ``config`` adds to it or overrides it."""
    check_java()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - after Java was looked for

    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**HOSTING, **(config or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def embedded(workers: int) -> SparkSession:
    """Start a local-cluster of two executors, sized for the workers, on the loopback address."""
    per_executor = -(-workers // _EXECUTORS)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Executors of a local-cluster announce the machine's address; everything here stays on loopback.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    config = {
        **_QUIET,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": f"{_EXECUTOR_MIB}m",
    }
    master = f"local-cluster[{_EXECUTORS},{per_executor},{_EXECUTOR_MIB}]"
    return spark_session("tailrace", master=master, config=config)


def end_embedded(spark: SparkSession) -> None:
    """Stop an embedded session and remove what local-cluster left under SPARK_HOME/work."""
    application = spark.sparkContext.applicationId
    home = os.environ.get("SPARK_HOME") or str(Path(sys.modules["pyspark"].__file__ or "").parent)
    spark.stop()
    work = Path(home, "work")
    shutil.rmtree(work / application, ignore_errors=True)
    with contextlib.suppress(OSError):  # other applications are still there
        work.rmdir()


def check_java() -> None:
    """Say what to do where there is no Java, before Spark fails in its own words."""
    home = os.environ.get("JAVA_HOME")
    if (home and Path(home, "bin", "java").exists()) or shutil.which("java"):
        return
    raise JavaMissingError(
        "Spark needs Java 17 or later; no java was found on PATH and JAVA_HOME is "
        + (f"{home!r}, which has none." if home else "not set."),
        "Install a JRE (for example the package openjdk-17-jre-headless) or set JAVA_HOME.",
    )


def default_workers() -> int:
    """One worker per core, two at least."""
    return max(2, os.cpu_count() or 2)
