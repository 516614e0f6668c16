"""Listeners written for PySpark hear of a query in PySpark's form."""

from __future__ import annotations

import json
import threading
import uuid

import pytest
from pyspark.sql.streaming import StreamingQueryListener

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query
from tailrace.errors import ConfigError

HANG_S = 60


class Hears(StreamingQueryListener):
    def __init__(self):
        self.told = []
        self.over = threading.Event()

    def onQueryStarted(self, event):  # noqa: N802
        self.told.append(("started", event))

    def onQueryProgress(self, event):  # noqa: N802
        self.told.append(("progress", event))

    def onQueryIdle(self, event):  # noqa: N802
        self.told.append(("idle", event))

    def onQueryTerminated(self, event):  # noqa: N802
        self.told.append(("terminated", event))
        self.over.set()


def heard(flow):
    query, listener, dismissed = (
        Query(flow, testing.ProcessHost(1), tr.Policy(), tr.Settings(progress_s=0.1)),
        Hears(),
        Hears(),
    )
    query.addListener(listener)
    query.addListener(dismissed)
    query.removeListener(dismissed)
    query.start()
    assert listener.over.wait(HANG_S)
    assert dismissed.told == []
    return query, listener.told


def test_a_listener_of_pysparks_hears_of_start_progress_and_end():
    flow = tr.Topology("events")
    flow.source(tr.sources.rate(500, count=200), name="numbers").sink(tr.sinks.discard())
    query, told = heard(flow)
    (_, started), *between, (_, ended) = told
    assert [kind for kind, _ in (told[0], told[-1])] == ["started", "terminated"]
    assert (started.id, started.runId, started.name) == (uuid.UUID(query.id), uuid.UUID(query.runId), "events")
    assert started.timestamp
    assert (ended.id, ended.exception, ended.errorClassOnException) == (started.id, None, None)
    reports = [event.progress for kind, event in between if kind == "progress"]
    assert sum(each.numInputRows for each in reports) == 200
    last = reports[-1]
    assert last.name == "events"
    assert last.batchId == last["sequence"]
    assert last.sources[0].description.startswith("numbers")
    assert json.loads(last.json)["runId"] == query.runId
    assert json.loads(last.prettyJson) == json.loads(last.json)


def test_a_listener_of_pysparks_hears_why_a_query_failed():
    flow = tr.Topology("fails")
    flow.source(tr.sources.items([0])).map(lambda value: 1 // value, name="invert").sink(tr.sinks.discard())
    _, told = heard(flow)
    event = told[-1][1]
    assert event.errorClassOnException == "OperatorError"
    assert "ZeroDivisionError" in event.exception


def test_what_is_no_listener_is_refused():
    query = Query(_one(), testing.ProcessHost(1), tr.Policy(), tr.Settings())
    with pytest.raises(ConfigError, match="QueryListener"):
        query.addListener(print)
    query.stop()
    assert not query.isActive


def _one():
    flow = tr.Topology("one")
    flow.source(tr.sources.items([1])).sink(tr.sinks.discard())
    return flow


def test_explain_is_a_text_before_the_start_and_after_the_end():
    query = Query(_one(), testing.ProcessHost(1), tr.Policy(), tr.Settings())
    assert "not placed yet" in query.explain()
    query.start().awaitTermination(HANG_S)
    shown = query.explain()
    assert repr(shown) == str(shown)
    assert shown == query.explain(text=True)
    assert "ended" in shown
