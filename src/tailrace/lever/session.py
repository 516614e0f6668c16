"""What must be set before a Spark session starts, and the check that it was.

``configure`` takes a builder, ``tailrace.spark_session(lever=True)`` calls ``beside`` for the same settings, ``check``
is what ``enable`` asks first. Touches the JVM only where one is already running, to let it find Lever's jar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from .errors import NotConfiguredError, UnsupportedSessionError
from .shim import find_jar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

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

    With level finish times a task that runs three times as long as the median after three quarters have ended was
    mispredicted. The paper's own settings (quantile 0.5, multiplier 1) copy every second task of a level batch. Tasks
    of less than 3 s are left alone: a Python task that loses takes its worker with it, and a new worker on a slow
    executor takes over a second to start. At a threshold of 1 s that alone made the next task lose as well, and so on
    in every batch.
    """
    return {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.75",
        "spark.speculation.multiplier": "3",
        "spark.speculation.minTaskRuntime": "3s",
        # A Python task that lost to its copy holds its core for this long (2 s by default), into the next batch.
        "spark.python.task.killTimeout": "200ms",
    }


def configure(builder: SparkSession.Builder, *, speculation: bool = False) -> SparkSession.Builder:
    """Add Lever's settings to a builder, next to the jars and extensions that it already has."""
    return builder.config(map=beside(getattr(builder, "_options", {}), speculation=speculation))


def beside(options: Mapping[str, Any], *, speculation: bool = False) -> dict[str, str]:
    """Return Lever's settings for a session that has these options: jars and extensions join those already listed."""
    found = settings(speculation=speculation)
    for key in ("spark.jars", "spark.sql.extensions"):
        own = [each for each in str(options.get(key, "")).split(",") if each and each != found[key]]
        found[key] = ",".join([*own, found[key]])
    _show_to_running_jvm(find_jar())
    return found


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
        "Start it with tailrace.spark_session(lever=True) or "
        "tailrace.lever.configure(SparkSession.builder).getOrCreate(), or add these lines to the builder:\n" + lines,
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
