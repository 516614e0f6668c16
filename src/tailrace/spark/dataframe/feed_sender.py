"""What a Spark task of a DataFrame does: it hands its rows to a worker and ends when every one of them is done.

Runs inside ``mapInArrow`` on the executors. Rows are numbered from the offset that the feed server granted for the
partition, so a second attempt gives every row the number it had; whatever is not done is kept here and sent again if
the worker is replaced.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from tailrace.spark.dataframe import messages
from tailrace.spark.errors import FeedError
from tailrace.transport.blocking_connection import LINE_ERRORS, Line
from tailrace.transport.ring import RingWriter
from tailrace.transport.segments import Probe, SegmentError, reads_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tailrace.spark.dataframe.messages import Ticket

#: Rows per frame; a frame is cut further where it would be too long.
PIECE_ROWS = 4096
RESULT_SCHEMA = "partition int, rows long"
_ANSWER_S = 10.0
_SEND_US = 200_000
_RECONNECT_S = 0.1
#: A task that finds no free lane gives its slot back after so long; Spark runs it again.
_BUSY_S = 15.0


def push(ticket: Ticket, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hand a partition's rows over; gives one row that says how many there were."""
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    feed_server = _Desk(ticket)
    try:
        granted = feed_server.claim(partition)
        rows = granted.rows
        if rows < 0:
            rows = _Sender(ticket, feed_server, granted).run(batches)
            feed_server.ask(messages.Finished(ticket.feed, ticket.batch, partition, rows))
    finally:
        feed_server.close()
    yield pa.RecordBatch.from_arrays(
        [pa.array([partition], pa.int32()), pa.array([rows], pa.int64())], ["partition", "rows"]
    )


class _Desk:
    """The task's line to the driver's feed server."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._line = Line.to(ticket.address, ticket.secret, ticket.frame_bytes_max)

    def ask(self, message: messages.ToDesk) -> messages.FromDesk:
        self._line.send(messages.encode(message))
        data = self._line.receive(_ANSWER_S)
        answer: messages.FromDesk = messages.Over() if data is None else messages.decode_from_desk(data)
        if isinstance(answer, messages.Over):
            raise FeedError("The query that these rows were for has ended.")
        return answer

    def claim(self, partition: int) -> messages.Granted:
        # As the driver sees it, like the workers' own: names of hosts come in too many forms.
        message = messages.ClaimLane(self._ticket.feed, self._ticket.batch, partition, self._line.local_host)
        deadline_s = time.monotonic() + _BUSY_S
        while time.monotonic() < deadline_s:
            answer = self.ask(message)
            if isinstance(answer, messages.Granted):
                return answer
        raise FeedError(
            f"No lane became free for partition {partition} within {_BUSY_S:.0f} s; the task gives its slot back.",
            "Spark runs it again. If it happens often, give the source more lanes or tasks.",
        )

    def close(self) -> None:
        self._line.close()


class _Piece(NamedTuple):
    offset: int
    rows: int
    data: bytes


class _Sender:
    """Sends the rows of one partition to whichever worker has its lane."""

    def __init__(self, ticket: Ticket, feed_server: _Desk, granted: messages.Granted) -> None:
        self._ticket = ticket
        self._feed_server = feed_server
        self._lane = granted.lane
        self._number = int(granted.lane.rpartition("-")[2])
        self._base = granted.base
        self._mark = granted.mark
        self._serial = granted.serial
        self._way = _connect(ticket, granted.way)
        self._held: deque[_Piece] = deque()
        self._schema = b""

    def run(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Send everything and wait until it is done; gives the number of rows."""
        at = self._base
        for batch in batches:
            if not self._schema:
                self._schema = messages.frame(messages.SCHEMA, self._number, 0, batch.schema.serialize())
                self._give(self._schema)
            for piece in self._pieces(at, batch):
                if piece.offset + piece.rows > self._mark:
                    self._held.append(piece)
                    self._give(piece.data)
                    self._wait(self._ticket.window_rows)
            at += batch.num_rows
        self._wait(0)
        self._way.close()
        return at - self._base

    def _pieces(self, at: int, batch: pa.RecordBatch) -> Iterator[_Piece]:
        for begin in range(0, batch.num_rows, PIECE_ROWS):
            part = batch.slice(begin, PIECE_ROWS)
            yield from self._cut(at + begin, part)

    def _cut(self, offset: int, part: pa.RecordBatch) -> Iterator[_Piece]:
        """Frame some rows, in halves where they would be too long for one message."""
        body = part.serialize()
        if body.size + 64 <= self._ticket.frame_bytes_max:
            yield _Piece(offset, part.num_rows, messages.frame(messages.ROWS, self._number, offset, memoryview(body)))
            return
        half = part.num_rows // 2
        if not half:
            raise FeedError(
                f"A row must fit into {self._ticket.frame_bytes_max:,} bytes, and one has {body.size:,}.",
                "Raise the setting frame_bytes_max, or leave its large columns out.",
            )
        yield from self._cut(offset, part.slice(0, half))
        yield from self._cut(offset + half, part.slice(half))

    def _wait(self, rows_max: int) -> None:
        """Wait until at most so many rows are under way."""
        while self._held and self._held[-1].offset + self._held[-1].rows - self._held[0].offset > rows_max:
            self._look()

    def _look(self) -> None:
        answer = self._feed_server.ask(messages.Await(self._ticket.feed, self._lane, self._mark, self._serial))
        if not isinstance(answer, messages.LaneState):
            return
        self._mark = max(self._mark, answer.mark)
        while self._held and self._held[0].offset + self._held[0].rows <= self._mark:
            self._held.popleft()
        if answer.serial != self._serial:
            self._serial = answer.serial
            self._begin_anew(answer.way)

    def _begin_anew(self, way: messages.Way) -> None:
        """The lane has another worker: send it all that is not done."""
        self._way.close()
        with contextlib.suppress(*LINE_ERRORS, SegmentError):
            self._way = _connect(self._ticket, way)
            for data in (self._schema, *(piece.data for piece in self._held)):
                if not self._way.send(data):
                    return  # gone again; the feed server will say so

    def _give(self, data: bytes) -> None:
        """Send a frame; where there is no room, look how the lane stands: its worker may have been replaced."""
        try:
            while not self._way.send(data):
                serial = self._serial
                self._look()
                if serial != self._serial:
                    return  # sent with the rest
        except (*LINE_ERRORS, SegmentError):
            serial = self._serial
            while serial == self._serial:
                self._look()
                time.sleep(_RECONNECT_S)


class _RingWay:
    """Into the worker's ring: both stand on one node."""

    def __init__(self, path: str) -> None:
        self._writer = RingWriter(path)
        self.send: Callable[[bytes], bool] = lambda data: self._writer.send(0, data, _SEND_US)

    def close(self) -> None:
        self._writer.close()


class _TcpWay:
    """Over a connection."""

    def __init__(self, ticket: Ticket, way: messages.Way) -> None:
        self._line = Line.to(way.tcp, ticket.secret, ticket.frame_bytes_max)

    def send(self, data: bytes) -> bool:
        deadline_s = time.monotonic() + _SEND_US / 1e6
        return self._line.send(data, unless=lambda: time.monotonic() > deadline_s)

    def close(self) -> None:
        self._line.close()


def _connect(ticket: Ticket, way: messages.Way) -> _RingWay | _TcpWay:
    if way.ring and reads_probe(Probe(way.probe_path, way.probe_nonce)):
        with contextlib.suppress(SegmentError):
            return _RingWay(way.ring)
    return _TcpWay(ticket, way)
