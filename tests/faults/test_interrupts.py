"""Ctrl-C: the first asks for a drain, the second ends at once; a failed query stops quietly; explain() always tells."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import tailrace as tr
from tailrace import testing
from tailrace.connect.items import Items
from tailrace.coordinator.query import Query
from tailrace.errors import TailraceError
from tailrace.worker.errors import OperatorError

HANG_S = 60

PROGRAM = """
    import time
    import tailrace as tr
    from tailrace import testing
    from tailrace.coordinator.query import Query

    def stuck(value):
        time.sleep(3600)

    if __name__ == "__main__":
        flow = tr.Topology("stuck")
        flow.source(tr.sources.items(range(10))).shuffle().map(stuck).sink(tr.sinks.discard())
        query = Query(flow, testing.ProcessHost(1), tr.Policy(), tr.Settings()).start()
        print("runs", flush=True)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            print("drains", flush=True)
            try:
                query.stop()
            except KeyboardInterrupt:
                print("ended", not query.isActive, query.status["message"], flush=True)
"""


def test_a_second_interrupt_ends_a_query_that_does_not_drain(tmp_path):
    """An operator that never returns: the drain would take its 60 s, and the host its 15 s after that."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "runs\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "drains\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=30)  # less than a drain takes, and far more than this needs
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
