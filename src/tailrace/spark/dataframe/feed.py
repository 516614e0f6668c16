"""Runs the Spark side of a query's DataFrames: a job for a bounded one, micro-batches for a streaming one.

A companion of the query: it serves the feed server while the query lives, starts the jobs once workers are open, lets
tables commit with every batch, and ends the query's sources when a bounded DataFrame has been read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import secrets
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from tailrace.connect.dataframe import DataFrameSource
from tailrace.connect.table import Table
from tailrace.spark.dataframe.feed_sender import RESULT_SCHEMA, push
from tailrace.spark.dataframe.feed_server import FeedServer
from tailrace.transport.handshake import SECRET_BYTES

from ..errors import FeedError
from ..interpreter import driver_interpreter
from .batch_gate import BatchGate
from .ingest import LaneLink
from .messages import Ticket

if TYPE_CHECKING:
    from tailrace.config import Settings
    from tailrace.coordinator.query import Query
    from tailrace.topology.graph import Topology

#: Rows that one Spark task may have under way; beyond, it waits for acks.
WINDOW_ROWS = 65_536
_REASON_CHARS_MAX = 600


def dataframes_of(flow: Topology) -> dict[str, DataFrameSource]:
    """The DataFrame sources of a topology, by operator."""
    return {name: spec.fn for name, spec in flow.operators.items() if isinstance(spec.fn, DataFrameSource)}


def tables_of(flow: Topology) -> list[Table]:
    """The tables that a topology writes."""
    return [spec.fn for spec in flow.operators.values() if isinstance(spec.fn, Table)]


def decide_commits(flow: Topology) -> None:
    """Settle when rows of tables count: with each batch, at the end of what is bounded, or every so often."""
    sources = [spec.fn for spec in flow.operators.values() if spec.kind == "source"]
    fed = [source for source in sources if isinstance(source, DataFrameSource)]
    streaming = any(not source.bounded for source in fed)
    for table in tables_of(flow):
        table.commits = "epoch" if streaming else "end" if fed and len(fed) == len(sources) else "time"


class Feeds:
    """All DataFrames of one query."""

    def __init__(self, spark: Any, flow: Topology, settings: Settings, hosts: tuple[str, str]) -> None:
        driver_host, bind_host = hosts
        self._context = spark.sparkContext
        secret = secrets.token_bytes(SECRET_BYTES)
        self._feed_server = FeedServer(bind_host, secret, settings.frame_bytes_max)
        self._sources = dataframes_of(flow)
        self._tables = tables_of(flow)
        self._tickets = {
            name: Ticket(feed, (driver_host, self._feed_server.port), secret, settings.frame_bytes_max, WINDOW_ROWS)
            for feed, name in enumerate(self._sources)
        }
        for name, source in self._sources.items():
            source.link = LaneLink(self._tickets[name])
        self._query: Query | None = None
        self._group = f"tailrace-dataframes-{uuid.uuid4()}"
        self._streams: list[tuple[BatchGate, Any]] = []
        self._batch_end_s = settings.batch_end_s
        self._unread = {name for name, source in self._sources.items() if source.bounded}
        self._stopping = False
        #: Batches of several DataFrames take turns, so that rows of a table belong to one of them.
        self._turn = threading.Lock()

    def join(self, query: Query) -> None:
        """Open the feed server for the query's lanes."""
        self._query = query
        for name, ticket in self._tickets.items():
            self._feed_server.open(ticket.feed, query.partitions_of(name))
        self._feed_server.start()
        query.accompany(self)

    # -- what the query says -------------------------------------------------------------------------------------

    def running(self, query: Query) -> None:
        """Start the jobs."""
        for name, source in self._sources.items():
            if source.bounded:
                threading.Thread(target=self._read_all, args=(name,), name="tailrace-feed", daemon=True).start()
            else:
                self._stream(query, name, source)

    def attend(self, marks: dict[int, int]) -> None:
        """Pass on what is complete."""
        self._feed_server.marked(marks)

    def stopping(self, *, now: bool) -> None:
        """Stop reading, a stream between two batches; one that is cut short is read again when it is resumed."""
        self._stop_reading(0.0 if now else self._batch_end_s)

    def _stop_reading(self, patience_s: float) -> None:
        self._stopping = True
        for table in self._tables if self._unread else ():
            table.abandoned = True
        for gate, _ in self._streams:
            gate.shut()
        deadline_s = time.monotonic() + patience_s
        for gate, stream in self._streams:
            gate.end(stream, max(0.0, deadline_s - time.monotonic()))
        if self._unread:
            with contextlib.suppress(Exception):  # Spark may be gone
                self._context.cancelJobGroup(self._group)

    def ended(self) -> None:
        """Send everyone away who still asks."""
        self._stopping = True
        for gate, _ in self._streams:
            gate.shut()  # before the feed server turns tasks away, which fails their batch
        self._feed_server.close()
        self._stop_reading(0.0)

    # -- jobs ----------------------------------------------------------------------------------------------------

    def _read_all(self, name: str) -> None:
        try:
            self._context.setJobGroup(self._group, f"tailrace reads {name}", interruptOnCancel=False)
            self._feed(name, self._sources[name].df, 0)
        except Exception as error:  # noqa: BLE001 - Py4J wraps whatever Spark throws
            self._fail(name, error)
            return
        self._unread.discard(name)
        self._feed_server.end(self._tickets[name].feed)

    def _feed(self, name: str, df: Any, batch: int) -> None:
        """Run one job that hands all rows of a DataFrame over; it ends when every row is done."""
        ticket = dataclasses.replace(self._tickets[name], batch=batch)
        with driver_interpreter(self._context):
            pushed = df.mapInArrow(functools.partial(push, ticket), RESULT_SCHEMA)
        pushed.collect()
        self._feed_server.batch_over(ticket.feed, batch)

    def _stream(self, query: Query, name: str, source: DataFrameSource) -> None:
        gate = BatchGate()

        def take(df: Any, batch: int) -> None:
            epoch = f"{name}:{batch}"
            if self._tables and all(table.has(epoch) for table in self._tables):
                return  # it was complete, and Spark did not come to note it
            with gate.batch(), self._turn:
                gate.check()  # another DataFrame's batch may have taken long
                self._feed(name, df, batch)
                for table in self._tables:
                    table.commit_batch(epoch)

        writer = source.df.writeStream.foreachBatch(take).queryName(f"{query.name}-{name}-{query.id[:8]}")
        if source.checkpoint is not None:
            writer = writer.option("checkpointLocation", source.checkpoint)
        if source.trigger:
            writer = writer.trigger(**source.trigger)
        stream = writer.start()
        self._streams.append((gate, stream))
        threading.Thread(target=self._watch, args=(name, stream), name="tailrace-stream", daemon=True).start()

    def _watch(self, name: str, stream: Any) -> None:
        try:
            stream.awaitTermination()
        except Exception as error:  # noqa: BLE001 - Py4J wraps whatever Spark throws
            self._fail(name, error)
            return
        self._feed_server.end(self._tickets[name].feed)  # a trigger such as availableNow has come to its end

    def _fail(self, name: str, error: Exception) -> None:
        if not self._stopping and self._query is not None:
            text = " ".join(str(error).split())[:_REASON_CHARS_MAX]
            self._query.fail(
                FeedError(
                    f"Spark could not read the DataFrame of {name!r} to its end: {text}", "See the error it gives."
                )
            )
