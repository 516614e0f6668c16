"""Rows from a sender to a worker's lane over the real feed server, ring and TCP; either end is replaced meanwhile."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time

import pyarrow as pa
import pytest
from tests.queries import until

from tailrace.clock import SystemClock
from tailrace.connect.columns import bare
from tailrace.spark.dataframe import feed_sender as pushing
from tailrace.spark.dataframe import ingest as rooms
from tailrace.spark.dataframe import messages
from tailrace.spark.dataframe.feed_server import FeedServer
from tailrace.spark.dataframe.ingest import LaneLink
from tailrace.spark.dataframe.messages import Ticket
from tailrace.spark.errors import FeedError
from tailrace.transport.blocking_connection import Line

SECRET = secrets.token_bytes(32)
WAIT_S = 20


class Field:
    """A feed server, and a worker that can be replaced."""

    def __init__(self):
        self.secret = secrets.token_bytes(32)
        self.feed_server = FeedServer("127.0.0.1", self.secret, 1 << 20)
        self.feed_server.open(0, {"lane-0": 1})
        self.feed_server.start()
        self.ticket = Ticket(0, ("127.0.0.1", self.feed_server.port), self.secret, 1 << 20, 1000)
        self.reader = None

    def worker(self, rows=bare, offset=0):
        """Open the lane as a new worker process would."""
        rooms._here.pop((self.secret, 0), None)
        self.reader = LaneLink(self.ticket).open("lane-0", offset, rows, SystemClock())
        self.reader.wait_s()
        return self.reader

    def close(self):
        self.feed_server.close()
        if self.reader is not None:
            self.reader.close()


@pytest.fixture
def field():
    made = Field()
    yield made
    made.close()


def batches(rows, size=300):
    column = pa.array(range(rows), pa.int64())
    return [pa.RecordBatch.from_arrays([column.slice(at, size)], ["n"]) for at in range(0, rows, size)]


class Task(threading.Thread):
    """A Spark task in a thread."""

    def __init__(self, field, rows):
        super().__init__(daemon=True)
        self.field, self.rows, self.said = field, rows, None
        self.start()

    def run(self):
        (found,) = pushing.push(self.field.ticket, batches(self.rows))
        self.said = found.column(1).to_pylist()[0]

    def ended(self):
        self.join(WAIT_S)
        return self.said


def read(reader, rows):
    found = []
    deadline_s = time.monotonic() + WAIT_S
    while len(found) < rows:
        assert time.monotonic() < deadline_s, f"{len(found)} of {rows} rows came"
        records = reader.read(64)
        found += zip(records.offsets, records.values, strict=True)
        time.sleep(0 if records.values else 0.001)
    return found


@pytest.mark.parametrize("ring", [True, False])
def test_a_task_ends_when_its_rows_are_done_and_waits_while_too_many_are_not(field, ring, monkeypatch):
    if not ring:
        monkeypatch.setattr(pushing, "reads_probe", lambda probe: False)
    reader = field.worker()
    task = Task(field, 5000)
    found = read(reader, 1200)  # the window is 1,000 rows, and no batch is cut for it
    assert reader.read(64).values == []
    field.feed_server.marked({1: 1200})
    for mark in (2400, 3600, 4800, 5000):
        found += read(reader, mark - len(found))
        assert task.said is None
        field.feed_server.marked({1: mark})
    assert task.ended() == 5000
    assert found == [(n, n) for n in range(5000)]


def test_a_worker_that_is_replaced_gets_what_was_not_done(field):
    first = field.worker()
    task = Task(field, 900)
    read(first, 700)
    field.feed_server.marked({1: 400})
    first.close()
    assert read(field.worker(offset=400), 500) == [(n, n) for n in range(400, 900)]
    field.feed_server.marked({1: 900})
    assert task.ended() == 900


def test_a_task_that_is_run_again_enters_no_row_twice(field):
    reader = field.worker()
    first = Task(field, 900)
    found = read(reader, 900)
    put, again = reader.put, []
    reader.put = lambda offset, batch: again.append((put(offset, batch), offset))
    second = Task(field, 900)
    until(lambda: len(again) == 3, "all that the second task sends has come")
    assert reader.read(64).values == []
    field.feed_server.marked({1: 900})
    assert (first.ended(), second.ended()) == (900, 900)
    assert Task(field, 900).ended() == 900  # it was done before it began
    assert found == [(n, n) for n in range(900)]


def test_whole_batches_are_one_value_each_and_the_end_is_told(field):
    reader = field.worker(rows=None)
    task = Task(field, 900)
    found = read(reader, 3)
    assert [offset for offset, _ in found] == [299, 599, 899]
    assert [n for _, batch in found for n in batch.column(0).to_pylist()] == list(range(900))
    field.feed_server.marked({1: 900})
    assert task.ended() == 900
    field.feed_server.end(0)
    until(lambda: reader.finished, "the end is told")


def test_a_process_keeps_nothing_of_a_lane_that_was_closed(field):
    before = dict(rooms._here)
    reader = field.worker()
    assert len(rooms._here) == len(before) + 1
    reader.close()
    assert rooms._here == before


def test_a_frame_that_cannot_be_read_fails_the_worker_instead_of_leaving_rows_out(field):
    reader = field.worker()
    with contextlib.closing(Line.to(reader._ingest._reception.address, field.secret, 1 << 20)) as line:
        line.send(messages.frame(messages.ROWS, 99, 0, b"no rows"))
        until(lambda: reader.wait_s() <= 0, "the failure shows")
    with pytest.raises(FeedError, match="could not be read"):
        reader.read(64)
