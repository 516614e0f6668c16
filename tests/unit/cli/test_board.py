"""What progress looks like, from reports of a real query that ran in process."""

from __future__ import annotations

import pytest
from rich.console import Console

from tailrace.cli import board
from tailrace.cli.wordcount import plain_count, word_count
from tailrace.testing import run


@pytest.fixture(scope="module")
def progress():
    flow, _ = word_count(rate=500, count=1500, tasks=2)
    return run(flow, workers=2).progress


def test_a_line_has_rate_latency_and_counters(progress):
    busy = next(each for each in progress if each["inputRowsPerSecond"] > 0 and each["latency"]["count"])
    text = board.line(busy)
    assert "\n" not in text
    assert f"{busy['inputRowsPerSecond']:,.0f} rows/s" in text
    for name in ("p50", "p99", "p99.9", "completed", "pending", "replays 0", "workers 2/2"):
        assert name in text


def test_the_board_has_a_row_per_stage(progress):
    console = Console(width=100, record=True, force_terminal=False)
    console.print(board.board("title", progress[-1]))
    shown = console.export_text()
    for name in ("title", "sentences", "split", "count + tally", "in/s", "outbox", "busy cores", "p99.9"):
        assert name in shown


def test_latencies_are_dashes_until_something_completed():
    assert board.latency_text({"count": 0}, ("p50", "p99")) == "p50 -  p99 -"
    shown = board.latency_text({"count": 1, "p50_ms": 1.234, "p99_ms": 1234.5}, ("p50", "p99"))
    assert shown == "p50 1.23 ms  p99 1,234 ms"


def test_skipped_values_are_told_only_where_there_are_some(progress):
    assert "skipped" not in board.counters_text(progress[-1])
    assert "skipped 3" in board.counters_text(progress[-1] | {"skipped": 3})


def test_all_that_was_read_is_counted(progress):
    assert board.read(progress[-1]) == 1500


def test_the_plain_loop_counts_the_excerpt_over_and_over():
    once, twice = plain_count(2040), plain_count(4080)
    assert once.total() > 10_000
    assert twice == {word: 2 * count for word, count in once.items()}


def test_who_is_stuck_is_one_line(progress):
    row = {"operator": "geo", "task": 1, "worker": 2, "seconds": 65.4, "stack": "line one\nline two"}
    stuck = {**progress[-1], "stuck": [row, row]}
    text = board.line(stuck)
    assert "\n" not in text
    assert "stuck: geo[1] on worker 2 has not come back for 65 s (and 1 more)" in text
    console = Console(width=140, record=True, force_terminal=False)
    console.print(board.board("title", stuck))
    assert "geo[1] on worker 2 has not come back for 65 s" in console.export_text()
    assert "stuck" not in board.line(progress[-1])
