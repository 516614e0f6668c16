# ruff: noqa: T201 - printing is what this is about
"""What plain functions print and log arrives at the driver with operator and task; all else goes where it went."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import sys
import threading

import pytest
from tests.queries import ended

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query
from tailrace.worker.user_output import operator_logger, to_driver


def speaks(value):
    print("printed", value)
    print("to stderr", file=sys.stderr)
    logging.getLogger("some.module").info("logged %d", value)
    try:
        {}["inside"]
    except LookupError:
        logging.getLogger("some.module").exception("caught")
    return value


async def speaks_awaited(value):
    await asyncio.sleep(0)
    speaks(value)
    await asyncio.to_thread(print, "from a thread")
    return value


class Speaks(tr.Operator):
    def __init__(self):
        print("made")

    def open(self, ctx):
        print("opened")
        ctx.logger.info("by its context")

    def process(self, value):
        speaks(value)
        return [value]

    def close(self):
        print("closed")


def key_that_speaks(value):
    print("asked for a key")
    return value


def lines_of(caplog, flow):
    with caplog.at_level(logging.INFO, logger="tailrace"):
        ended(Query(flow, testing.ProcessHost(1), tr.Policy(), tr.Settings(register_timeout_s=200.0)).start())
    return [(record.name, record.levelname, record.getMessage()) for record in caplog.records]


@pytest.mark.parametrize(
    "draw",
    [
        lambda s: s.map(abs, name="first").map(speaks, name="speaks"),
        lambda s: s.shuffle().map(speaks, name="speaks", blocking=True),
        lambda s: s.shuffle().map(speaks_awaited, name="speaks"),
        lambda s: s.shuffle().process(Speaks, name="speaks"),
    ],
    ids=["chained", "thread", "async", "class"],
)
def test_prints_and_records_of_plain_functions_arrive_with_operator_and_task(draw, caplog):
    flow = tr.Topology("speaking")
    draw(flow.source(tr.sources.items([7]))).sink(tr.sinks.discard(), name="end")
    said = lines_of(caplog, flow)
    name = "tailrace.operator.speaks"
    value = 7
    assert (name, "INFO", f"[task 0] printed {value}") in said
    assert (name, "WARNING", "[task 0] to stderr") in said
    assert (name, "INFO", f"[task 0] logged {value}") in said
    (caught,) = [text for logger, level, text in said if (logger, level) == (name, "ERROR")]
    assert caught.startswith("[task 0] caught\nTraceback")
    assert "KeyError: 'inside'" in caught
    if flow.operators["speaks"].fn is Speaks:
        for word in ("made", "opened", "by its context", "closed"):
            assert (name, "INFO", f"[task 0] {word}") in said
    if flow.operators["speaks"].fn is speaks_awaited:
        assert (name, "INFO", "[task 0] from a thread") in said


def test_what_a_key_function_prints_arrives_under_the_operator_in_front_of_it(caplog):
    flow = tr.Topology("keys")
    flow.source(tr.sources.items([7]), name="items").key_by(key_that_speaks).count(tasks=2).sink(tr.sinks.discard())
    assert ("tailrace.operator.items", "INFO", "[task 0] asked for a key") in lines_of(caplog, flow)


class FeedServer:
    """A worker's part: says whose code this thread runs, and keeps what it is told."""

    def __init__(self):
        self.spot = None
        self.said = []
        self._ident = threading.get_ident()

    def at_work(self):
        return self.spot if threading.get_ident() == self._ident else None

    def say(self, *line):
        self.said.append(line)


@contextlib.contextmanager
def streams():
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        yield out, err
        assert (sys.stdout, sys.stderr) == (out, err)


def test_lines_are_told_whole_and_only_while_user_code_runs():
    desk = FeedServer()
    with streams() as (out, err), to_driver(desk.at_work, desk.say):
        print("before")
        desk.spot = ("op", 1)
        print("one\ntwo", end="")
        assert desk.said == [(logging.INFO, "op", 1, "one")]
        print("!")
        print("never ended", end="")
        desk.spot = None
        print("after", file=sys.stderr)
        beside = threading.Thread(target=print, args=("from elsewhere",))
        beside.start()
        beside.join()
    assert [line[3] for line in desk.said] == ["one", "two!", "never ended"]
    assert out.getvalue() == "before\nfrom elsewhere\n"
    assert err.getvalue() == "after\n"


def test_streams_and_logging_are_given_back_when_the_last_worker_goes(monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    level = logging.root.level
    one, two = FeedServer(), FeedServer()
    two.spot = ("two", 0)
    with streams() as (out, err), to_driver(one.at_work, one.say):
        with to_driver(two.at_work, two.say):
            print("a")
            logging.getLogger("any").info("b")
        print("outside")
        logging.getLogger("any").warning("as ever")
        logging.getLogger("any").info("not shown, as ever")
    assert logging.root.handlers == []
    assert logging.root.level == level
    assert [line[3] for line in two.said] == ["a", "b"]
    assert one.said == []
    assert out.getvalue() == "outside\n"
    assert err.getvalue() == "as ever\n"


def test_a_record_whose_arguments_do_not_fit_does_no_harm(monkeypatch):
    desk = FeedServer()
    monkeypatch.setattr(logging, "raiseExceptions", False)
    operator_logger(desk.say, "op", 0).info("%d", "no number")
    assert desk.said == []


def test_the_logger_of_a_task_is_kept_by_nobody():
    logger = operator_logger(FeedServer().say, "op", 3)
    assert logger.name == "tailrace.operator.op.3"
    assert logger.name not in logging.root.manager.loggerDict
