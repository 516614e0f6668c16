"""User code on the driver that raises, exits or dawdles: the query ends by name, and nobody waits for ever."""

from __future__ import annotations

import logging
import threading

import pytest
from tests.queries import reports_later

import tailrace as tr
from tailrace import placement, testing
from tailrace.coordinator.errors import CallbackError, PolicyError, StopTimeoutError
from tailrace.coordinator.query import Query
from tailrace.errors import TailraceError
from tailrace.topology.contracts import Sink

HANG_S = 60


class OnDriver(Sink):
    """Sends everything to the driver, where it does what a test wants."""

    label = "out"

    def __init__(self, receive=None, finish=None, begin=None):
        self.acts = {"receive": receive, "finish": finish, "begin": begin}
        self.got, self.finished = [], []

    def __getstate__(self):
        return {"acts": {}, "got": [], "finished": []}

    def open(self, ctx):
        self.ctx = ctx

    def write(self, values):
        self.ctx.emit_to_driver(values)

    def begin(self):
        self._act("begin")

    def receive(self, values):
        self._act("receive")
        self.got.extend(values)

    def finish(self, error):
        self.finished.append(error)
        self._act("finish")

    def _act(self, name):
        if self.acts.get(name) is not None:
            self.acts[name]()


def leave():
    raise SystemExit(3)


def flow_to(sink, *, source=None):
    flow = tr.Topology("driver")
    flow.source(source or tr.sources.items(range(50)), name="numbers").shuffle().sink(sink, name="out", tasks=2)
    return flow


def query_of(flow, **settings):
    return Query(flow, testing.ProcessHost(1), tr.Policy(), tr.Settings(**settings))


def in_time(act):
    """Do something in a thread of its own and give what it raised; a test must not hang with it."""
    told = []

    def run():
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            told.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG_S)
    assert not thread.is_alive(), "it still waits"
    return told[0] if told else None


@pytest.mark.parametrize("method", ["receive", "finish"])
def test_a_sink_that_exits_ends_the_query_under_its_name(method):
    sink = OnDriver(**{method: leave})
    query = query_of(flow_to(sink))
    error = in_time(lambda: query.start().awaitTermination())
    assert isinstance(error, CallbackError)
    assert f"{method}() of sink 'out'" in error.message
    assert "SystemExit: 3" in error.message
    assert query.exception() is error
    assert len(sink.finished) == 1
    assert in_time(lambda: query.stop(now=True)) is None
    assert not query.isActive


def test_a_sink_that_cannot_begin_is_raised_by_start():
    def refuse():
        raise ValueError("no room")

    query = query_of(flow_to(OnDriver(begin=refuse)))
    assert isinstance(in_time(query.start), ValueError)
    assert in_time(lambda: query.stop(now=True)) is None
    assert not query.isActive


def test_a_placement_policy_that_raises_ends_the_start_under_its_name(monkeypatch):
    class Broken:
        def place(self, graph, nodes, snapshot=None):
            raise OSError("no such table")

    monkeypatch.setitem(placement.POLICIES, "round_robin", Broken)
    query = query_of(flow_to(OnDriver()))
    error = in_time(query.start)
    assert isinstance(error, PolicyError)
    assert "'round_robin'" in error.message
    assert "no such table" in error.message
    assert in_time(lambda: query.stop(now=True)) is None


class Companion:
    """Fails wherever it is told to."""

    def __init__(self, *broken):
        self.broken, self.told = broken, []

    def _say(self, name):
        self.told.append(name)
        if name in self.broken:
            raise KeyboardInterrupt(name)

    def running(self, query):
        self._say("running")

    def attend(self, marks):
        self._say("attend")

    def stopping(self):
        self._say("stopping")

    def ended(self):
        self._say("ended")


@pytest.mark.parametrize("where", ["attend", "ended"])
def test_a_broken_companion_stops_neither_the_others_nor_the_end(where):
    sink, whole, done = OnDriver(), Companion(), []
    query = query_of(flow_to(sink))
    query.accompany(Companion(where))
    query.accompany(whole)
    query.on_end(leave)
    query.on_end(lambda: done.append(True))
    error = in_time(lambda: query.start().awaitTermination())
    assert isinstance(error, CallbackError)
    assert f"{where}() of Companion" in error.message
    assert "ended" in whole.told
    assert len(sink.finished) == 1
    assert done == [True]


def test_a_listener_that_exits_ends_the_query_under_its_name():
    class Exits(tr.QueryListener):
        def onQueryStarted(self, query):  # noqa: N802
            raise SystemExit(1)

    query = query_of(flow_to(OnDriver(), source=tr.sources.rate(50)))
    query.addListener(Exits())
    error = in_time(lambda: query.start().awaitTermination())
    assert isinstance(error, CallbackError)
    assert "Listener Exits" in error.message


def test_a_listener_may_stop_its_query_and_may_not_wait_for_it():
    refused = []

    class Stops(tr.QueryListener):
        def onQueryProgress(self, query, progress):  # noqa: N802
            try:
                query.awaitTermination()
            except TailraceError as error:
                refused.append(error)
            query.stop()

    query = query_of(flow_to(OnDriver(), source=tr.sources.rate(50)), progress_s=0.1)
    query.addListener(Stops())
    assert in_time(lambda: query.start().awaitTermination()) is None
    assert "for ever" in refused[0].message


def test_a_log_handler_that_raises_ends_the_query_by_name():
    class Logs(tr.Operator):
        def open(self, ctx):
            ctx.logger.warning("hello")

        def process(self, value):
            return [value]

    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError("disk full")

    flow = tr.Topology("logs")
    flow.source(tr.sources.rate(50)).process(Logs, name="logs").sink(OnDriver(), name="out")
    logger, handler = logging.getLogger("tailrace.operator.logs"), Broken()
    logger.addHandler(handler)
    try:
        error = in_time(lambda: query_of(flow).start().awaitTermination())
    finally:
        logger.removeHandler(handler)
    assert isinstance(error, CallbackError)
    assert "logging" in error.message
    assert "disk full" in error.message


def test_a_slow_sink_on_the_driver_costs_no_worker_its_lease():
    """The first ``receive`` takes several leases; every value arrives once, from workers that were never replaced."""
    entered = []

    def once():
        if not entered:
            entered.append(True)
            reports_later(query, 30)  # six leases

    sink = OnDriver(receive=once)
    query = query_of(flow_to(sink, source=tr.sources.rate(200, count=500)), lease_s=0.5, progress_s=0.1)
    assert in_time(lambda: query.start().awaitTermination()) is None
    assert sorted(sink.got) == list(range(500))
    assert query.lastProgress["workers"]["restarts"] == 0
    assert len(sink.finished) == 1


def test_what_a_sink_has_not_taken_is_not_complete():
    """A worker is told that values are taken only when ``receive`` has returned."""
    entered, go_on = threading.Event(), threading.Event()

    def wait():
        entered.set()
        go_on.wait(HANG_S)

    sink = OnDriver(receive=wait)
    query = query_of(flow_to(sink, source=tr.sources.rate(200, count=100)), progress_s=0.1)
    query.start()
    try:
        assert entered.wait(HANG_S)
        reports_later(query, 5)
        assert query.lastProgress["read"] > 0
        assert query.lastProgress["completed"] == 0
    finally:
        go_on.set()
    assert in_time(query.awaitTermination) is None
    assert sorted(sink.got) == list(range(100))
    assert query.lastProgress["completed"] == 100


def test_stop_says_what_is_open_when_the_time_is_up(monkeypatch):
    """A sink on the driver that does not return: stop() raises, and stop(now=True) ends all the same."""
    monkeypatch.setattr("tailrace.coordinator.ending._HOST_STOP_S", 0.5)
    monkeypatch.setattr("tailrace.coordinator.callbacks._LEAVE_S", 0.5)
    entered, go_on = threading.Event(), threading.Event()

    def wait():
        entered.set()
        go_on.wait(HANG_S)

    sink = OnDriver(receive=wait)
    query = query_of(flow_to(sink, source=tr.sources.items([1])), drain_timeout_s=0.5)
    query.start()
    try:
        assert entered.wait(HANG_S)
        # The brain's own limit may be reached first: then it is that error, of the same family, that says so.
        error = in_time(query.stop)
        assert isinstance(error, TailraceError)
        assert in_time(lambda: query.stop(now=True)) is None
        assert not query.isActive
        assert sink.finished == []  # it is in a call that has not returned
    finally:
        go_on.set()


def test_stop_that_finds_no_end_raises(monkeypatch):
    monkeypatch.setattr("tailrace.coordinator.ending._HOST_STOP_S", 0.2)
    go_on = threading.Event()
    query = query_of(
        flow_to(OnDriver(finish=lambda: go_on.wait(HANG_S)), source=tr.sources.rate(10)), drain_timeout_s=1
    )
    query.start()
    try:
        error = in_time(query.stop)
        assert isinstance(error, StopTimeoutError)
        assert "finish() of sink 'out' has not returned" in error.message
    finally:
        go_on.set()
    assert in_time(query.stop) is None
