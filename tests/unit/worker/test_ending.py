"""The end of a worker: threads come back before ``close()`` is called, failures are told, and nothing is kept."""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import ClassVar

import pytest
from tests.queries import WAIT_S, until
from tests.unit.worker.test_loop import ThreadHost, started

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.connect import lookup
from tailrace.coordinator.query import Query
from tailrace.program.errors import CloseError
from tailrace.testing import run


class Noted(tr.Operator):
    """Notes when its calls begin and end, and waits in ``process`` until it is let go."""

    notes: ClassVar[list[str]] = []
    go_on = threading.Event()

    def process(self, value):
        self.notes.append("in")
        self.go_on.wait(WAIT_S)
        time.sleep(0.1)
        self.notes.append("out")
        return [value]

    def close(self):
        self.notes.append("closed")


def waiting(**settings):
    """A query whose operator sits in a call."""
    Noted.notes.clear()
    Noted.go_on.clear()
    flow = tr.Topology("ending")
    flow.source(tr.sources.rate(100), name="numbers").shuffle().process(Noted, name="noted").sink(tr.sinks.discard())
    query, _ = started(flow, workers=1, **settings)
    until(lambda: Noted.notes, "a call", query)
    until(
        lambda: "tailrace-loop-2" in {thread.name for thread in threading.enumerate()}, "a thread for the call", query
    )
    return query


def test_close_is_called_after_the_last_call_has_come_back():
    query = waiting(close_timeout_s=WAIT_S)
    stopping = threading.Thread(target=query.stop, kwargs={"now": True})
    stopping.start()
    until(lambda: query._brain.state == "ended", "the end begins")
    Noted.go_on.set()
    stopping.join()
    assert Noted.notes[-2:] == ["out", "closed"]


def test_a_call_that_does_not_come_back_is_told_and_its_operator_is_not_closed_beside_it(caplog):
    query = waiting(close_timeout_s=0.2)
    with caplog.at_level(logging.ERROR, logger="tailrace"):
        query.stop(now=True)
    assert "closed" not in Noted.notes
    Noted.go_on.set()
    assert "[task 0] has not come back for" in caplog.text
    assert "in process" in caplog.text
    assert caplog.records[0].name == "tailrace.operator.noted"


class BadClose(tr.Operator):
    def process(self, value):
        return [value]

    def close(self):
        raise OSError("disk full")


class GoodClose(Noted):
    def process(self, value):
        return [value]


def closing(source):
    Noted.notes.clear()
    flow = tr.Topology("closing")
    flow.source(source).process(BadClose, name="bad").process(GoodClose, name="good").sink(tr.sinks.discard())
    return flow


def test_a_close_that_fails_fails_a_query_that_was_stopped_at_once(caplog):
    query = Query(closing(tr.sources.rate(100)), ThreadHost(1), Policy(), Settings()).start()
    with caplog.at_level(logging.ERROR, logger="tailrace"):
        query.stop(now=True)
    assert isinstance(query.exception(), CloseError)
    assert "Operator 'bad', task 0: close() failed: OSError: disk full" in query.exception().message
    assert Noted.notes == ["closed"]
    assert "disk full" in caplog.text
    with pytest.raises(CloseError):
        query.awaitTermination(WAIT_S)


def test_a_close_that_fails_at_the_end_of_the_input_fails_the_query():
    with pytest.raises(CloseError, match=r"'bad', task 0: close\(\) failed: OSError: disk full"):
        run(closing(tr.sources.items([1])))


def test_the_first_failure_counts_and_that_of_close_is_told_only(caplog):
    def fails(value):
        raise ValueError("first")

    flow = closing(tr.sources.rate(100))
    flow.source(tr.sources.rate(100), name="others").shuffle().map(fails, name="fails").sink(tr.sinks.discard())
    with caplog.at_level(logging.ERROR, logger="tailrace"), pytest.raises(tr.TailraceError, match="ValueError: first"):
        Query(flow, ThreadHost(1), Policy(), Settings()).start().awaitTermination(WAIT_S)
    assert "'bad', task 0: close() failed: OSError: disk full" in caplog.text


class HalfOpen(BadClose):
    def open(self, ctx):
        raise RuntimeError("no such table")


def test_an_operator_that_could_not_be_opened_is_closed_without_a_word(caplog):
    flow = tr.Topology("half")
    stream = flow.source(tr.sources.items([1])).process(GoodClose, name="good").process(HalfOpen, name="half")
    stream.sink(tr.sinks.discard())
    Noted.notes.clear()
    with caplog.at_level(logging.WARNING, logger="tailrace"), pytest.raises(tr.TailraceError, match="no such table"):
        run(flow)
    assert "disk full" not in caplog.text
    assert Noted.notes == ["closed"]


def test_a_worker_leaves_its_process_as_it_was():
    before = sys.getswitchinterval(), sys.stdout, sys.stderr, list(logging.root.handlers), lookup.held()
    lookup.install("mine", 0, {})
    try:
        flow = tr.Topology("reused")
        flow.source(tr.sources.items([1])).map(Installs(), name="reused_operator").sink(tr.sinks.discard())
        query, host = started(flow, workers=1)
        query.awaitTermination(WAIT_S)
        assert lookup.held() == before[-1] | {"mine"}
        assert not [name for name in logging.root.manager.loggerDict if "reused_operator.0" in name]
        assert (sys.getswitchinterval(), sys.stdout, sys.stderr, list(logging.root.handlers)) == before[:-1]
        assert host.errors == []
    finally:
        lookup.release(before[-1])


class Installs:
    """Brings a lookup table along, as a function that holds one does."""

    def __call__(self, value):
        lookup.install("theirs", 0, {})
        return value
