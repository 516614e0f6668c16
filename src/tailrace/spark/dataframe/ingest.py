"""The worker's side of a DataFrame: lanes that Spark tasks of this node fill through a ring, and others over TCP.

One ``Ingest`` per worker process receives for all its lanes, in threads of its own; a lane's reader gives the rows to
the worker's loop as any other source does. What is under way is bounded by the sender's window, so nothing here waits.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailrace.topology.contracts import NO_RECORDS, Reader, Records
from tailrace.transport.blocking_connection import LINE_ERRORS, Line
from tailrace.transport.reception import Reception
from tailrace.transport.ring import RingReader
from tailrace.transport.segments import Folder, NoSharedMemoryError, RingUnavailableError

from ..errors import FeedError
from . import messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.clock import Clock

    from .messages import Ticket

_RING_WAIT_US = 200_000
_RECV_RECORDS = 64
_RING_BYTES = 4 * 1024 * 1024
_PATIENCE_S = 1.0
#: How soon a lane looks again while someone waits for rows that are under way.
_PROMPT_S = 0.005

_here: dict[tuple[bytes, int], Ingest] = {}
_here_lock = threading.Lock()


@dataclass(frozen=True)
class LaneLink:
    """What a shipped source opens its lanes with."""

    ticket: Ticket

    def open(self, lane: str, offset: int, rows: Callable[[pa.RecordBatch], list[Any]] | None, clock: Clock) -> Reader:
        """Open a lane in this process."""
        key = (self.ticket.secret, self.ticket.feed)
        with _here_lock:
            ingest = _here.get(key)
            if ingest is None or ingest.closed:
                ingest = _here[key] = Ingest(self.ticket)
        return ingest.open(lane, LaneReader(ingest, offset, rows, clock))


class Ingest:
    """Receives rows for the lanes of one source in one process."""

    def __init__(self, ticket: Ticket) -> None:
        self.closed = False
        #: Why a receiving thread gave up; the worker's loop raises it, since rows that were lost here never come again.
        self.failure: FeedError | None = None
        self._ticket = ticket
        self._lanes: dict[str, LaneReader] = {}
        self._feed_server = Line.to(ticket.address, ticket.secret, ticket.frame_bytes_max)
        self._folder = Folder.make()
        self._probe = self._folder.write_probe()
        self._ring: RingReader | None = None
        with contextlib.suppress(NoSharedMemoryError, RingUnavailableError):
            self._ring = RingReader(str(self._folder.path / "ingest"), _RING_BYTES)
        self._host = self._feed_server.local_host
        self._reception = Reception(self._host, ticket.secret, ticket.frame_bytes_max, "tailrace-ingest")
        self._announced = False
        self._reception.start(self._serve)
        if self._ring is not None:
            self._begin(self._drain_ring)

    def _begin(self, target: Callable[[], None]) -> None:
        threading.Thread(target=target, name="tailrace-ingest", daemon=True).start()

    def open(self, name: str, reader: LaneReader) -> LaneReader:
        """Add a lane; the feed server hears of all of them with the first look of the loop."""
        self._lanes[name] = reader
        return reader

    def announce(self) -> None:
        """Tell the feed server which lanes are open here; called when the worker reads for the first time."""
        if self._announced:
            return
        self._announced = True
        ring = "" if self._ring is None else self._ring.path
        way = messages.Way(self._host, self._reception.address, ring, self._probe.path, self._probe.nonce)
        self._feed_server.send(messages.encode(messages.LanesUp(self._ticket.feed, list(self._lanes), way)))
        self._begin(self._hear_desk)

    def _hear_desk(self) -> None:
        with contextlib.suppress(*LINE_ERRORS):
            while not self.closed:
                data = self._feed_server.receive(_PATIENCE_S)
                if data is not None and isinstance(messages.decode_from_desk(data), messages.Ended):
                    for reader in self._lanes.values():
                        reader.end()
        self._feed_server.close()

    def _serve(self, line: Line) -> None:
        with contextlib.suppress(*LINE_ERRORS):
            while not self.closed:
                data = line.receive(_PATIENCE_S)
                if data is not None:
                    self._take(data)

    def _drain_ring(self) -> None:
        ring = self._ring
        while ring is not None and not self.closed:
            if ring.wait(_RING_WAIT_US):
                for _, data in ring.receive(_RECV_RECORDS):
                    self._take(data)
        if ring is not None:
            ring.close()
            self._folder.close()

    def _take(self, data: bytes) -> None:
        try:
            self._put(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the query by the worker's loop
            self.failure = FeedError(
                f"Rows for a lane of this worker were expected, and a message could not be read: {error!r}.",
                "Run the same version of tailrace and pyarrow on the driver and on all executors.",
            )
            for reader in self._lanes.values():
                reader.wakeup()

    def _put(self, data: bytes) -> None:
        kind, number, offset, body = messages.parts(data)
        reader = self._lanes[f"lane-{number}"]
        if kind == messages.SCHEMA:
            reader.schema = pa.ipc.read_schema(pa.py_buffer(body))
        else:
            reader.put(offset, pa.ipc.read_record_batch(pa.py_buffer(body), reader.schema))

    def close(self) -> None:
        """Close everything; the thread at the ring removes its file."""
        if self.closed:
            return
        self.closed = True
        with _here_lock:  # a process that is used again must not keep what ended queries have read
            if _here.get(key := (self._ticket.secret, self._ticket.feed)) is self:
                del _here[key]
        self._reception.close()
        if self._announced:
            self._feed_server.hang_up()  # its thread closes it
        else:
            self._feed_server.close()
        if self._ring is not None:
            self._ring.wakeup()
        else:
            self._folder.close()


class LaneReader(Reader):
    """The rows of one lane. ``put`` is called by receiving threads, the rest by the worker's loop."""

    prompt = True

    def __init__(
        self, ingest: Ingest, offset: int, rows: Callable[[pa.RecordBatch], list[Any]] | None, clock: Clock
    ) -> None:
        self.schema: pa.Schema | None = None
        self._ingest = ingest
        self._rows = rows
        self._clock = clock
        self._queue: deque[tuple[int, pa.RecordBatch, int]] = deque()
        self._next = offset
        self._read = self._committed = offset
        self._ended = False
        self._lock = threading.Lock()

    def put(self, offset: int, batch: pa.RecordBatch) -> None:
        """Take rows in; those that came before, from an earlier attempt of their task, are left out."""
        with self._lock:
            end = offset + batch.num_rows
            if end <= self._next:
                return
            if offset < self._next:
                batch = batch.slice(self._next - offset)
                offset = self._next
            self._next = end
            self._queue.append((offset, batch, self._clock.now_ns()))
        self.wakeup()

    def end(self) -> None:
        """No row will come any more."""
        self._ended = True
        self.wakeup()

    @property
    def finished(self) -> bool:
        """Whether Spark has given all rows, and all were read."""
        return self._ended and not self._queue

    def wait_s(self) -> float:
        """Tell that there is something, or that the loop will be woken."""
        self._ingest.announce()
        if self._queue or self._ingest.failure is not None:
            return 0.0
        return _PROMPT_S if self._read > self._committed else 1.0

    def commit(self, offset: int) -> None:
        """Learn what is complete."""
        self._committed = offset

    def read(self, max_records: int) -> Records:
        """Give rows out of the oldest batch, or a whole batch as one value."""
        if self._ingest.failure is not None:
            raise self._ingest.failure
        if not self._queue:
            return NO_RECORDS
        offset, batch, since_ns = self._queue.popleft()
        if self._rows is None:
            self._read = offset + batch.num_rows
            return Records([self._read - 1], [batch], [since_ns])
        if batch.num_rows > max_records:
            self._queue.appendleft((offset + max_records, batch.slice(max_records), since_ns))
            batch = batch.slice(0, max_records)
        self._read = offset + batch.num_rows
        return Records(range(offset, self._read), self._rows(batch), [since_ns] * batch.num_rows)

    def close(self) -> None:
        """Let the process's ingest go; the query is over for all its lanes at once."""
        self._ingest.close()
