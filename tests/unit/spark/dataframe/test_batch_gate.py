"""A stream ends between two batches; one that is cut short leaves as one line, once Spark knows of the stop."""

from __future__ import annotations

import logging
import threading
import traceback

import pytest

from tailrace.spark.dataframe.batch_gate import BatchGate, BatchInterruptedError

WAIT_S = 20


class Stream:
    """As Spark's: active until it is stopped; ``stop`` returns when the batch it interrupted has left."""

    def __init__(self, on_stop=lambda: None):
        self.isActive = True
        self.status = {"isTriggerActive": False}
        self.on_stop = on_stop

    def stop(self):
        self.isActive = False
        self.on_stop()


class Batch(threading.Thread):
    """A batch in the thread of Java's call."""

    def __init__(self, gate, work):
        super().__init__(daemon=True)
        self.gate, self.work, self.inside, self.left = gate, work, threading.Event(), None
        self.start()

    def run(self):
        try:
            with self.gate.batch():
                self.inside.set()
                self.work()
            self.left = "ended"
        except Exception as error:  # noqa: BLE001 - what leaves is looked at
            self.left = error


def test_a_batch_that_is_under_way_ends_before_the_stream_is_stopped():
    gate, go, order = BatchGate(), threading.Event(), []
    batch = Batch(gate, lambda: (go.wait(WAIT_S), order.append("batch")))
    assert batch.inside.wait(WAIT_S)
    ending = threading.Thread(target=gate.end, args=(Stream(lambda: order.append("stop")), WAIT_S))
    ending.start()
    go.set()
    ending.join(WAIT_S)
    batch.join(WAIT_S)
    assert order == ["batch", "stop"]
    assert batch.left == "ended"


def test_a_batch_that_is_cut_short_leaves_as_one_line():
    gate, cancelled = BatchGate(), threading.Event()

    def work():
        cancelled.wait(WAIT_S)
        raise RuntimeError("java.lang.Exception" + "\n\tat some.Frame" * 1000)

    batch = Batch(gate, work)
    assert batch.inside.wait(WAIT_S)
    gate.end(Stream(cancelled.set), 0.0)
    batch.join(WAIT_S)
    assert isinstance(batch.left, BatchInterruptedError)
    assert len("".join(traceback.format_exception(batch.left))) < 2000
    assert "java.lang.InterruptedException" in str(batch.left)


def test_a_batch_that_comes_later_is_refused_once_the_stream_is_stopped():
    gate, stream = BatchGate(), Stream()
    gate.shut()
    batch = Batch(gate, lambda: None)
    batch.join(0.1)
    assert batch.is_alive(), "it left before Spark knew of the stop, which fails the query"
    gate.end(stream, WAIT_S)
    batch.join(WAIT_S)
    assert isinstance(batch.left, BatchInterruptedError)
    assert not batch.inside.is_set()


def test_a_batch_that_fails_by_itself_fails_as_it_did():
    gate = BatchGate()
    with pytest.raises(ZeroDivisionError), gate.batch():
        _ = 1 / 0


def test_py4j_logs_interruptions_no_more_and_other_errors_as_before(caplog):
    BatchGate().end(Stream(), 0.0)
    logger = logging.getLogger("py4j.clientserver")
    caplog.set_level(logging.ERROR, "py4j")
    for error in (BatchInterruptedError(), ValueError("told")):
        logger.error("There was an exception", exc_info=error)
    assert [record.exc_info[1].args[0] for record in caplog.records] == ["told"]
