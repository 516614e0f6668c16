"""A query has the habits of PySpark's StreamingQuery."""

from __future__ import annotations

import threading

import pytest
from tests import sparks
from tests.queries import PATIENT, completed, ended, ending, until

import tailrace as tr
from tailrace.program.errors import OperatorError

pytestmark = pytest.mark.spark
QUICK = tr.Settings(progress_s=0.1, **PATIENT)


class Hears(tr.QueryListener):
    def __init__(self):
        self.progress, self.ends = [], []
        self.told_of_end = threading.Event()

    def onQueryProgress(self, query, progress):  # noqa: N802
        self.progress.append(progress["sequence"])

    def onQueryTerminated(self, query, error):  # noqa: N802
        self.ends.append(error)
        self.told_of_end.set()


def endless():
    flow, out = tr.Topology("endless"), tr.sinks.collect()
    flow.source(tr.sources.rate(500), name="numbers").shuffle().map(lambda v: v, tasks=2).sink(out, name="out")
    return flow, out


def test_a_running_query_tells_of_itself_and_drains_when_stopped():
    flow, out = endless()
    heard, dismissed = Hears(), Hears()
    with ending(tr.start(flow, sparks.session(), workers=2, settings=QUICK)) as query:
        query.addListener(heard)
        query.addListener(dismissed)
        query.removeListener(dismissed)
        assert query.name == "endless"
        assert query.isActive
        assert query.exception() is None
        assert query.awaitTermination(0.01) is False
        assert query.status == {"message": "Processing tuples", "isDataAvailable": True, "isTriggerActive": True}
        until(lambda: completed(query) > 100 and len(heard.progress) > 2, "progress", query)
        first, last = query.recentProgress[0], query.lastProgress
        assert first["sequence"] < last["sequence"]
        assert (last["id"], last["name"]) == (query.id, "endless")
        assert {"inputRowsPerSecond", "latency", "stages", "workers"} <= set(last)
        shown = query.explain()
        assert repr(shown) == shown
        assert "numbers: 1 task(s)" in shown
        assert "Spark" in shown
        query.stop()
        assert not query.isActive
    assert query.awaitTermination() is None
    assert query.awaitTermination(1) is True
    assert query.status["message"] == "Stopped"
    # Drained: all that was read has arrived, once.
    read = query.lastProgress["stages"][0]["read"]
    assert sorted(out.values) == list(range(read))
    assert query.lastProgress["pending"] == 0
    assert heard.progress == sorted(set(heard.progress))
    assert heard.ends == [None]
    assert dismissed.progress == dismissed.ends == []


def test_stop_now_waits_for_nothing():
    flow, _ = endless()
    flow.source(tr.sources.items([1]), name="one").shuffle().map(lambda v: [threading.Event().wait()]).sink(
        tr.sinks.discard()
    )
    query = tr.start(flow, sparks.session(), workers=2, settings=QUICK)
    until(lambda: completed(query) > 50, "progress", query)
    query.stop(now=True)
    assert not query.isActive
    assert query.exception() is None


def test_a_failed_query_says_why_wherever_it_is_asked():
    def odd_only(value):
        return 1 // (value % 2)

    flow, heard = tr.Topology("fails"), Hears()
    flow.source(tr.sources.rate(50)).map(odd_only, name="odd", tasks=2).sink(tr.sinks.discard())
    query = tr.start(flow, sparks.session(), workers=2, settings=QUICK)
    query.addListener(heard)
    with pytest.raises(OperatorError, match="'odd'"):
        ended(query)
    query.stop()  # quietly: it has ended before
    assert "hosted by" in query.explain()
    assert isinstance(query.exception(), OperatorError)
    assert query.status["message"] == "Failed"
    assert heard.told_of_end.wait(30)
    assert heard.ends == [query.exception()]
