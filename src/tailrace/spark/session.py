"""A Spark session that suits long-lived workers: what hosting needs is set before the JVM starts.

``spark_session`` is public; ``embedded`` is what ``tr.start`` uses when it is given no session. The command line passes
both a ``log``, so that what the JVM prints while it starts does not spill into what a user reads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import JavaMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

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
_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: For JVMs on this machine that only host workers: with the small compiler and collector all three of a local-cluster
#: started for 18 s of CPU time instead of 34 s, and they have nothing to do afterwards that the large ones speed up.
LIGHT: dict[str, str] = {
    "spark.driver.extraJavaOptions": _JVM_OPTIONS,
    "spark.executor.extraJavaOptions": _JVM_OPTIONS,
}
_EXECUTOR_MIB = 1024
#: Of an embedded session, unless it is told otherwise.
EXECUTORS = 2
_JVM_END_S = 10.0


def spark_session(
    name: str = "tailrace",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    lever: bool = False,
    log: IO[bytes] | None = None,
) -> SparkSession:
    """Start (or get) a session with what hosting needs set; ``config`` adds to it or overrides it.

    With ``lever`` it also has what ``tailrace.lever.enable`` needs. ``log`` takes what the JVM prints, if this starts
    one; otherwise that goes where this process prints.
    """
    check_java()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - after Java was looked for

    settings = {"spark.app.name": name, **HOSTING}
    if master is not None:
        settings["spark.master"] = master
        if master.startswith("local"):  # on this machine the executors' Python is this one
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings |= config or {}
    if lever:
        from tailrace.lever.session import beside  # noqa: PLC0415 - it may have to build its jar: only if asked for

        settings |= beside(settings)
    if log is not None:
        _launch_jvm(settings, log)
    return SparkSession.builder.config(map=settings).getOrCreate()


def _launch_jvm(settings: Mapping[str, str], log: IO[bytes]) -> None:
    """Do what PySpark does on the first session, but with the JVM's output in a file."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    if SparkContext._gateway is None:  # noqa: SLF001 - PySpark has no other way to ask or to hand one over
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001


def jvm_runs() -> bool:
    """Whether PySpark has started a JVM in this process."""
    from pyspark import SparkContext  # noqa: PLC0415

    return SparkContext._gateway is not None  # noqa: SLF001


def end_jvm() -> None:
    """Let the JVM that PySpark started go, and wait until it is gone; the next session starts another."""
    from pyspark import SparkContext  # noqa: PLC0415

    gateway = SparkContext._gateway  # noqa: SLF001
    if gateway is None or getattr(gateway, "proc", None) is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()  # what the JVM takes for the end of its driver
    with contextlib.suppress(subprocess.TimeoutExpired):
        gateway.proc.wait(_JVM_END_S)
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def embedded(workers: int, log: IO[bytes] | None = None, *, executors: int = EXECUTORS) -> SparkSession:
    """Start a local-cluster of a few executors, sized for the workers, on the loopback address."""
    per_executor = -(-workers // executors)
    # Executors of a local-cluster announce the machine's address; everything here stays on loopback.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    config = {
        **_QUIET,
        **LIGHT,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": f"{_EXECUTOR_MIB}m",
    }
    master = f"local-cluster[{executors},{per_executor},{_EXECUTOR_MIB}]"
    return spark_session("tailrace", master=master, config=config, log=log)


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
