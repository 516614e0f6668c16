"""Ctrl-C: the first asks for a drain, the second ends at once; a failed query stops quietly; explain() always tells."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from tests.queries import WAIT_S

import tailrace as tr
from tailrace import testing
from tailrace.connect.items import Items
from tailrace.coordinator.query import Query
from tailrace.errors import TailraceError
from tailrace.program.errors import OperatorError

HANG_S = 60

PROGRAM = """
    import pathlib, sys, threading, time
    import tailrace as tr
    from tailrace import testing
    from tailrace.coordinator.query import Query

    entered = pathlib.Path(sys.argv[1])

    def stuck(value):
        entered.touch()
        time.sleep(3600)

    def say_when(condition, text):
        while not condition():
            time.sleep(0.01)
        print(text, flush=True)

    if __name__ == "__main__":
        flow = tr.Topology("stuck")
        flow.source(tr.sources.items(range(10))).shuffle().map(stuck).sink(tr.sinks.discard())
        query = Query(flow, testing.ProcessHost(1), tr.Policy(), tr.Settings(drain_timeout_s=3600)).start()
        draining = lambda: query.status["message"] == "Draining"
        threading.Thread(target=say_when, args=(draining, "drains"), daemon=True).start()
        try:
            say_when(entered.exists, "runs")
            query.awaitTermination()
        except KeyboardInterrupt:
            try:
                query.stop()
            except KeyboardInterrupt:
                print("ended", not query.isActive, query.status["message"], flush=True)
"""


def test_a_second_interrupt_ends_a_query_that_does_not_drain(tmp_path):
    """An operator that never returns: the drain would take an hour."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, str(program), str(tmp_path / "entered")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "runs\n"
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "drains\n"
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    assert out == "ended True Stopped\n"


def test_stop_is_quiet_where_the_query_had_failed_and_explain_tells_at_any_time():
    flow = tr.Topology("failed")
    flow.source(tr.sources.items([0])).map(lambda value: 1 // value, name="invert").sink(tr.sinks.discard())
    query = Query(flow, testing.ProcessHost(1), tr.Policy(), tr.Settings())
    assert "registering" in query.explain()
    query.start()
    with pytest.raises(OperatorError):
        query.awaitTermination(HANG_S)
    query.stop()
    assert isinstance(query.exception(), OperatorError)
    assert "ended" in str(query.explain())


class ExitsOnRead(Items):
    """Its readers leave with SystemExit."""

    def open(self, partition, offset, clock):
        reader = super().open(partition, offset, clock)
        reader.read = _leave
        return reader


def _leave(max_records):
    raise SystemExit("the source leaves")


def test_a_source_that_exits_ends_the_query_by_name():
    flow = tr.Topology("exits")
    flow.source(ExitsOnRead([1, 2], 1)).sink(tr.sinks.discard())
    query, told = Query(flow, testing.ProcessHost(1), tr.Policy(), tr.Settings()), []

    def run():
        try:
            query.start().awaitTermination()
        except TailraceError as error:
            told.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG_S)
    query.stop(now=True)
    assert "the source leaves" in told[0].message
