"""The arms of ``tailrace bench dataframe``: Spark's Python UDFs, and the same functions as a topology.

Bounded arms take a DataFrame and run it into nothing. Open-loop arms read lines from a socket of the bench, one arm at
a time, and tell how old each row was when the arm had put it out.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import tailrace as tr

from . import work

if TYPE_CHECKING:
    from collections.abc import Callable

UDF, PANDAS, TASKS, WORKERS, STREAMED = "udf", "pandas_udf", "tasks", "workers", "dataframe_in"
_POLL_S = 0.05
_SETTLE_S = 30.0


def spark_udf(kind: str, fn: Callable[[Any], Any], returns: str) -> Any:
    """A function as Spark's Arrow-optimised Python UDF, or as a pandas UDF over its rows."""
    from pyspark.sql import functions  # noqa: PLC0415 - only with Spark

    if kind == UDF:
        return functions.udf(fn, returns, useArrow=True)

    def over_series(series: Any) -> Any:
        return series.map(fn)

    import pandas as pd  # noqa: PLC0415 - what a pandas UDF needs

    over_series.__annotations__ = {"series": pd.Series, "return": pd.Series}
    return functions.pandas_udf(over_series, returns)


def bounded(kind: str, df: Any) -> Any:
    """The functions over a bounded DataFrame."""
    if kind in {UDF, PANDAS}:
        clean, score = spark_udf(kind, work.clean, "string"), spark_udf(kind, work.score, "long")
        return df.select("id", score(clean("text")).alias("score"))
    flow = tr.Topology("scores")
    flow.input().map(work.cleaned).map(work.scored).output(work.SCHEMA)
    return flow.apply(df, inside=kind, workers=2)


def seconds_for(kind: str, df: Any) -> float:
    """How long it takes to run a DataFrame through an arm into nothing."""
    began_s = time.perf_counter()
    bounded(kind, df).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began_s


class LineServer:
    """A socket that gives its one reader lines when they are due, whether or not it is ready."""

    def __init__(self, sentences: list[str]) -> None:
        self._sentences = sentences
        self._server = socket.create_server(("127.0.0.1", 0))
        self._reader: socket.socket | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where the arm reads."""
        return int(self._server.getsockname()[1])

    def _accept(self) -> None:
        # Spark's socket source connects once to look and once to read: the last one reads.
        with contextlib.suppress(OSError):
            while True:
                self._reader, _ = self._server.accept()

    def offer(self, per_s: int, seconds: float) -> int:
        """Send lines at a rate, each when it is due; gives how many."""
        deadline_s = time.monotonic() + _SETTLE_S
        while self._reader is None and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        began_s, count = time.time(), int(per_s * seconds)
        for number in range(count):
            due_s = began_s + number / per_s
            wait_s = due_s - time.time()
            if wait_s > 0:
                time.sleep(wait_s)
            line = f"{int(due_s * 1e6)}\t{self._sentences[number % len(self._sentences)]}\n"
            if self._reader is not None:
                self._reader.sendall(line.encode())
        return count

    def close(self) -> None:
        """Close both ends."""
        self._server.close()
        if self._reader is not None:
            self._reader.close()


class OpenLoopArm:
    """An arm that is up and reads lines."""

    def __init__(self, kind: str, spark: Any, folder: str, sentences: list[str]) -> None:
        self.kind = kind
        self.lines = LineServer(sentences)
        self._found: list[int] = []
        self._query: Any = None
        self._table: work.TimedTable | None = None
        if kind in {UDF, PANDAS}:
            self._open_spark(spark, folder)
        else:
            self._open_topology(spark, folder)

    def _socket(self, spark: Any) -> Any:
        return spark.readStream.format("socket").option("host", "127.0.0.1").option("port", self.lines.port).load()

    def _open_spark(self, spark: Any, folder: str) -> None:
        function = spark_udf(self.kind, work.score_of_line, "long")
        frame = self._socket(spark).select("value", function("value").alias("score"))
        frame = frame.selectExpr("cast(split_part(value, '\t', 1) as long) as due_us", "score")

        def take(batch: Any, _: int) -> None:
            rows = batch.collect()
            now_us = time.time_ns() // 1000
            self._found.extend(now_us - row.due_us for row in rows)

        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", f"{folder}/{self.kind}-checkpoint")
        self._query = writer.start()

    def _open_topology(self, spark: Any, folder: str) -> None:
        self._table = work.TimedTable(folder, self.kind)
        flow = tr.Topology(self.kind)
        if self.kind == STREAMED:
            source = tr.sources.dataframe(self._socket(spark), "value", checkpoint=f"{folder}/{self.kind}-checkpoint")
        else:
            source = tr.sources.socket("127.0.0.1", self.lines.port)
        flow.source(source).map(work.scored_line).sink(self._table)
        self._query = tr.start(flow, spark=spark, workers=1)

    def offer(self, per_s: int, seconds: float) -> list[int]:
        """Offer lines and wait for all of them; gives their ages at the output, in microseconds."""
        before = len(self._latencies())
        count = self.lines.offer(per_s, seconds)
        deadline_s = time.monotonic() + _SETTLE_S
        while len(self._latencies()) < before + count and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        return self._latencies()[before:]

    def _latencies(self) -> list[int]:
        return self._found if self._table is None else work.read_latencies(self._table.latencies)

    def close(self) -> None:
        """Stop the query."""
        with contextlib.suppress(Exception):
            self._query.stop()
        self.lines.close()
