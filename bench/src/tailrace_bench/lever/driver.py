"""One Spark application of the benchmark: a process that runs arms on command, one line of JSON per command and answer.

Started by ``Driver`` in the benchmark's own process. Speculation is switched on for the whole application, because
Spark decides that at its start; its thresholds are read at the start of every stage, and arms without speculation set
one that is never reached. Lever's memory is kept per arm.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from tailrace.lever.apply import PLAN_TIMEOUT_MS, Lever
from tailrace.lever.planner import Planner
from tailrace.lever.plans import plan_of
from tailrace.lever.session import configure, speculation_settings

from .arms import NO_SPECULATION
from .cluster import LIGHT_JVM
from .errors import LeverBenchError
from .workloads import CASES, BatchLoad

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

ANSWER = "tailrace-answer:"


class Driver:
    """The other end: a handle on such a process."""

    def __init__(self, master: str, events: Path) -> None:
        settings = {"master": master, "events": str(events)}
        command = [sys.executable, "-m", "tailrace_bench.lever.driver", json.dumps(settings)]
        self._process = subprocess.Popen(  # noqa: S603  this very module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            text=True,
        )

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        assert self._process.stdin is not None  # noqa: S101  made by Popen above
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Wait for the next answer; the first says that the application is up."""
        assert self._process.stdout is not None  # noqa: S101  made by Popen above
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                found: dict[str, Any] = json.loads(line.removeprefix(ANSWER))
                if "error" in found:
                    raise LeverBenchError(
                        f"An arm failed: {found['error']}", "Run the arm alone to see Spark's own log."
                    )
                return found
        raise LeverBenchError("A Spark application of the benchmark ended.", "Check memory: it needs about 5 GB.")

    def close(self) -> None:
        """End the application."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()


class Application:
    """What runs in the process."""

    def __init__(self, master: str, events: str) -> None:
        config = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "768m",
            "spark.executor.cores": "1",
            "spark.executor.memory": "640m",
            "spark.cores.max": "4",
            # Many JVMs on few cores: the quick compiler and a single-threaded collector spare them each other.
            "spark.driver.extraJavaOptions": LIGHT_JVM,
            "spark.executor.extraJavaOptions": LIGHT_JVM,
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.sql.shuffle.partitions": "4",
            # Fewer small files per commit of state, which every arm pays for and the slow executor four times.
            "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.dir": Path(events).as_uri(),
            # The duty cycle stops executors for moments only, but a loaded machine adds to it.
            "spark.network.timeout": "300s",
        }
        config |= speculation_settings() | NO_SPECULATION
        builder = SparkSession.builder.appName("tailrace-bench").master(master).config(map=config)
        self.spark = configure(builder).getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self._planners: dict[str, Planner] = {}
        self._kept: dict[str, StreamingQuery] = {}

    def warm(self) -> None:
        """Load what a query needs and start a Python worker on every executor."""
        load = BatchLoad(rows=8, wait_us=1, partitions=4, trigger_s=1.0)
        with tempfile.TemporaryDirectory() as checkpoint:
            query = CASES["wordcount"].build(self.spark, load).writeStream.format("noop").outputMode("update")
            query.trigger(availableNow=True).option("checkpointLocation", checkpoint).start().awaitTermination()

    def run(self, command: dict[str, Any]) -> dict[str, Any]:
        """Run some batches of one arm; a query goes on where its last command left it, or was never stopped."""
        lever = self._lever(command)
        for key, value in command["live"].items():
            # Speculation's thresholds are read when a stage starts, so arms of one application can have their own.
            self.spark.sparkContext._jsc.sc().conf().set(key, value)  # noqa: SLF001
        query = self._kept.pop(command["checkpoint"], None) or self._start(command)
        done = len(_batches(query))
        while query.isActive and len(_batches(query)) < done + command["batches"]:
            query.awaitTermination(0.02)
        answer = {"query": query.id, "batches": _batches(query)[done : done + command["batches"]]}
        if command["keep"] and query.isActive:
            self._kept[command["checkpoint"]] = query
            return answer
        query.stop()
        if query.exception():
            raise query.exception()
        if lever:
            answer["failures"] = lever.status(query.id).failures
            lever.stop()
        return answer

    def _start(self, command: dict[str, Any]) -> StreamingQuery:
        case, load = CASES[command["case"]], BatchLoad(**command["load"])
        return (
            case.build(self.spark, load)
            .writeStream.format("noop")
            .outputMode(case.mode)
            .option("checkpointLocation", command["checkpoint"])
            .trigger(processingTime=f"{int(load.trigger_s * 1000)} milliseconds")
            .start()
        )

    def _lever(self, command: dict[str, Any]) -> Lever | None:
        if not command.get("plan"):
            return None
        made = Planner(plan_of(command["plan"]), state=command["state"])
        planner = self._planners.setdefault(command["checkpoint"], made)
        lever = Lever(self.spark, planner, planner.decide, planner.settle)
        lever.start(self.spark, PLAN_TIMEOUT_MS)
        return lever


def _batches(query: Any) -> list[tuple[int, int]]:
    """Batch numbers and durations of the batches that had input."""
    return [(p["batchId"], p["durationMs"]["triggerExecution"]) for p in query.recentProgress if p["numInputRows"]]


def serve() -> None:
    """Answer commands until the other end goes."""
    application = Application(**json.loads(sys.argv[1]))
    application.warm()
    _say({"up": True})
    for line in sys.stdin:
        _say(_attempt(application, json.loads(line)))
    application.spark.stop()


def _attempt(application: Application, command: dict[str, Any]) -> dict[str, Any]:
    try:
        return application.run(command)
    except Exception as error:  # noqa: BLE001  it is handed to the other process, which raises it
        return {"error": f"{type(error).__name__}: {error}"[:2000]}


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(ANSWER + json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve()
