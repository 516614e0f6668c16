"""``processAllAvailable()``: what was there at the call is complete when it returns."""

from __future__ import annotations

import threading

import pytest

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.errors import QueryError
from tailrace.coordinator.query import Query
from tailrace.program.errors import OperatorError

HANG_S = 60


def in_time(act):
    told = []

    def run():
        try:
            act()
            told.append(None)
        except Exception as error:  # noqa: BLE001 - looked at by the test
            told.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG_S)
    assert told, "it still waits"
    return told[0]


def query_of(source, fn, out):
    flow = tr.Topology("available")
    flow.source(source, name="numbers").shuffle().map(fn, tasks=2).sink(out, name="out")
    return Query(flow, testing.ProcessHost(2), tr.Policy(), tr.Settings(progress_s=0.1))


def test_lines_that_were_there_have_arrived_and_the_query_goes_on(tmp_path):
    path, out = tmp_path / "lines.txt", tr.sinks.collect()
    path.write_text("".join(f"{number}\n" for number in range(500)))
    query = query_of(tr.sources.lines(path, follow=True), int, out).start()
    try:
        for wanted in (500, 800):
            assert in_time(query.processAllAvailable) is None
            assert sorted(out.values) == list(range(wanted))
            assert query.isActive
            with path.open("a") as lines:
                lines.writelines(f"{number}\n" for number in range(500, 800))
    finally:
        query.stop(now=True)


def test_a_source_without_end_is_waited_for_up_to_now():
    out = tr.sinks.collect()
    query = query_of(tr.sources.rate(300), int, out).start()
    try:
        for _ in range(3):
            before = query._brain.marks
            assert in_time(query.processAllAvailable) is None
            assert len(out.values) >= sum(before.values())
        assert query.isActive
    finally:
        query.stop(now=True)


def test_a_bounded_source_is_waited_for_to_its_end_and_a_failure_is_raised():
    out = tr.sinks.collect()
    query = query_of(tr.sources.items(range(300)), int, out).start()
    assert in_time(query.processAllAvailable) is None
    assert sorted(out.values) == list(range(300))
    query.awaitTermination(HANG_S)
    failing = query_of(tr.sources.rate(100), lambda value: 1 // (value - 5), tr.sinks.discard())
    assert isinstance(in_time(failing.processAllAvailable), QueryError)  # not started
    failing.start()
    assert isinstance(in_time(lambda: [failing.processAllAvailable() for _ in range(1000)]), OperatorError)
    with pytest.raises(OperatorError):
        failing.awaitTermination(HANG_S)
