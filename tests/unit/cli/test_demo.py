"""The demo without Spark: its topology in worker processes, its check, and Ctrl-C."""

from __future__ import annotations

import io
import signal
import threading
from collections import Counter

import pytest
from rich.console import Console

from tailrace.cli.demo import DemoOptions, DemoRun, report, summary
from tailrace.cli.errors import DemoError
from tailrace.cli.watching import WatchEnd, step, watch
from tailrace.cli.wordcount import Tally, check_counts, plain_count, word_count
from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.testing import ProcessHost


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


def started(rate, count, policy=Policy()):  # noqa: B008 - it is frozen
    flow, tally = word_count(rate, count, tasks=2)
    return Query(flow, ProcessHost(2), policy, Settings(progress_s=0.1)).start(), tally


def test_the_demo_sums_up_exactly(console):
    query, tally = started(rate=2000, count=600)
    seen = []
    assert watch(query, console, seen.append, every_s=0.05) is WatchEnd.BY_ITSELF
    assert all(progress["state"] == "running" for progress in seen)
    lines = summary(query, tally, DemoOptions(0.3, 2000, 2), seconds=2.0)
    assert lines[0] == "sentences/s  300 of 2,000 asked for"
    assert lines[1].startswith(f"counted      600 sentences, {plain_count(600).total():,} words in 2.0 s")
    assert lines[-2] == "lost         0"
    assert lines[-1].startswith("counts exact: ")


def test_two_runs_are_told_side_by_side_and_end_with_what_matters(console):
    runs = []
    for name, policy in (("baselines", Policy()), ("auto", Policy.auto())):
        query, tally = started(2000, 400, policy)
        runs.append(DemoRun(name, query, tally))
        watch(query, console, lambda _: None, every_s=0.05)
    lines = report(runs, DemoOptions(0.2, 2000, 2))
    assert lines[0] == "baselines:"
    assert lines.count("  replays      0") == 2
    at = next(at for at, line in enumerate(lines) if line.startswith("tails of "))
    assert [line.split()[0] for line in lines[at + 1 : at + 4]] == ["p50", "baselines", "auto"]
    assert lines[at + 4].startswith("auto chose ")
    assert lines[-2] == "lost         0"
    assert lines[-1].startswith("counts exact: ")


def test_ctrl_c_drains_and_what_was_read_is_still_exact(console):
    query, tally = started(rate=1000, count=1_000_000)

    def press(progress):
        if progress["completed"] > 100:
            signal.raise_signal(signal.SIGINT)

    assert watch(query, console, press, every_s=0.05) is WatchEnd.DRAINED
    assert "Stopping" in console.file.getvalue()
    assert not query.isActive
    completed = query.lastProgress["completed"]
    assert 100 < completed < 1_000_000
    assert tally.counts == plain_count(completed)
    assert summary(query, tally, DemoOptions(1000, 1000, 2), 1.0)[-1].startswith("counts exact")


def test_a_second_ctrl_c_ends_at_once(console):
    query, _ = started(rate=1000, count=1_000_000)
    drain = query.stop

    def never_drains(*, now=False):
        if now:
            drain(now=True)
        else:
            signal.raise_signal(signal.SIGINT)
            threading.Event().wait(60)

    query.stop = never_drains
    assert watch(query, console, lambda _: signal.raise_signal(signal.SIGINT), every_s=0.05) is WatchEnd.AT_ONCE
    assert not query.isActive
    assert "Ending at once" in console.file.getvalue()


def test_wrong_counts_are_named():
    check_counts({"a": 2, "b": 1}, Counter("aab"))
    with pytest.raises(DemoError, match=r"2 of 2 counts differ.*'a' 1 for 2"):
        check_counts({"a": 1, "b": 1, "c": 1}, Counter("aab"))


def test_a_missing_sentence_is_an_error():
    class Lossy:
        lastProgress = {"completed": 3, "replays": 0, "stages": [{"read": 5}, {}]}  # noqa: N815, RUF012
        latency = {"count": 0}  # noqa: RUF012

    with pytest.raises(DemoError, match="2 are lost"):
        summary(Lossy(), Tally(), DemoOptions(1, 1, 1), 1.0)


def test_steps_are_plain_lines_where_there_is_no_terminal(console):
    with step(console, "Doing [this] ..."):
        pass
    assert console.file.getvalue() == "Doing [this] ...\n"
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80)
    with step(terminal, "Doing that ..."):
        pass
    assert "Doing that ..." in terminal.file.getvalue()
