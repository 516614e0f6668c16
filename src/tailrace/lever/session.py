"""What must be set before a Spark session starts, and the check that it was.

``configure`` takes a builder, ``spark_session`` makes a session in one call, ``check`` is what ``enable`` asks first.
Touches the JVM only where one is already running, to let it find Lever's jar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from .errors import NotConfiguredError, UnsupportedSessionError
from .shim import find_jar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EXTENSION = "org.apache.spark.sql.tailrace.LeverExtensions"
PINNED_WAIT_S = 10
"""How long a pinned task waits for its executor; the shim lowers it to the shortest trigger interval it meets."""


def settings(*, speculation: bool = False) -> dict[str, str]:
    """Return the Spark settings that Lever needs, for a builder, spark-submit or spark-defaults.conf."""
    found = {
        "spark.jars": str(find_jar()),
        "spark.sql.extensions": EXTENSION,
        # Only the pinned executor is worth waiting for: neither its host nor its rack has the data.
        "spark.locality.wait": "0s",
        "spark.locality.wait.process": f"{PINNED_WAIT_S}s",
    }
    return found | (speculation_settings() if speculation else {})


def speculation_settings() -> dict[str, str]:
    """Return settings with which speculation acts on what the prediction missed and on nothing else.

    With level finish times a task that runs twice as long as the median after three quarters have ended was
    mispredicted. The paper's own settings (quantile 0.5, multiplier 1) copy every second task of a level batch. Short
    tasks are left alone: a Python task that loses takes its worker with it, and the next one pays for a new worker.
    """
    return {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.75",
        "spark.speculation.multiplier": "2",
        "spark.speculation.minTaskRuntime": "1s",
        # A Python task that lost to its copy holds its core for this long (2 s by default), into the next batch.
        "spark.python.task.killTimeout": "200ms",
    }


def configure(builder: SparkSession.Builder, *, speculation: bool = False) -> SparkSession.Builder:
    """Add Lever's settings to a builder, next to the jars and extensions that it already has."""
    options: dict[str, Any] = getattr(builder, "_options", {})
    for key, value in settings(speculation=speculation).items():
        listed = str(options.get(key, "")).split(",") if key in {"spark.jars", "spark.sql.extensions"} else []
        own = [each for each in listed if each and each != value]
        builder = builder.config(key, ",".join([*own, value]))
    _show_to_running_jvm(find_jar())
    return builder


def spark_session(
    name: str = "tailrace",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    speculation: bool = False,
) -> SparkSession:
    """Start (or get) a session in which ``lever.enable`` works."""
    builder = SparkSession.builder.appName(name)
    if master:
        builder = builder.master(master)
    for key, value in (config or {}).items():
        builder = builder.config(key, value)
    return configure(builder, speculation=speculation).getOrCreate()


def check(spark: SparkSession) -> None:
    """Raise a named error unless Lever can work in this session."""
    if not hasattr(spark, "_jsparkSession"):
        raise UnsupportedSessionError(
            "Lever needs a session with its driver in this process, and this one is Spark Connect.",
            "Run the query in the driver's own Python process, or leave Lever out.",
        )
    conf = spark.sparkContext.getConf()
    if EXTENSION in (conf.get("spark.sql.extensions") or "").split(","):
        return
    lines = "\n".join(f'    .config("{key}", "{value}")' for key, value in settings().items())
    raise NotConfiguredError(
        "This session was started without Lever's settings, which take effect only before it starts.",
        "Build it with tailrace.lever.configure(SparkSession.builder).getOrCreate(), or add these lines to the "
        f"builder:\n{lines}",
    )


def _show_to_running_jvm(jar: Path) -> None:
    """A JVM left over from a stopped session does not read spark.jars again: hand it the jar by its class loader."""
    gateway = SparkContext._gateway  # noqa: SLF001  PySpark has no public way to ask whether a JVM runs
    if gateway is None:
        return
    loader = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    url = gateway.jvm.java.io.File(str(jar)).toURI().toURL()
    if hasattr(loader, "addURL") and url.toString() not in {each.toString() for each in loader.getURLs()}:
        loader.addURL(url)
