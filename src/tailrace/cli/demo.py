"""``tailrace demo``: word count over Wikipedia at a steady rate on an embedded Spark, checked to the last word.

Called by ``main``; touches nothing but the console and the Spark it starts.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live

from tailrace.start import start

from . import board
from .errors import DemoError
from .hosting import hosted
from .watching import EXIT_INTERRUPTED, End, say, step, watch
from .wordcount import plain_count, word_count

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from tailrace.coordinator.query import Query

    from .wordcount import Tally

_REFRESH_S = 0.2
_WRONG_SHOWN_MAX = 5


@dataclass(frozen=True)
class Asked:
    """The options of the command."""

    seconds: float
    rate: float
    workers: int
    debug: bool = False

    @property
    def count(self) -> int:
        """How many sentences that makes."""
        return max(1, round(self.seconds * self.rate))


def demo(asked: Asked) -> int:
    """Run the demo and return the exit code; a lost sentence or a wrong count is a DemoError."""
    console = Console(highlight=False)
    flow, tally = word_count(asked.rate, asked.count, tasks=max(1, asked.workers - 1))
    with contextlib.ExitStack() as stack:
        with step(console, f"Starting Spark on this machine for {asked.workers} workers ..."):
            spark = stack.enter_context(hosted(asked.workers, None, debug=asked.debug))
        with step(console, "Starting the workers ..."):
            query = start(flow, spark, workers=asked.workers)
        started_s = time.monotonic()
        end = _follow(console, query, asked, started_s)
        with step(console, "Ending Spark ..."):
            stack.close()
    if end is End.AT_ONCE:
        say(console, "Ended before the open sentences were counted, so there is nothing to check.")
    else:
        for text in summary(query, tally, asked, tally.ended_s - started_s):
            say(console, text)
    return 0 if end is End.BY_ITSELF else EXIT_INTERRUPTED


def _follow(console: Console, query: Query, asked: Asked, started_s: float) -> End:
    def title() -> str:
        passed_s = min(asked.seconds, time.monotonic() - started_s)
        return f"{passed_s:3.0f} of {asked.seconds:.0f} s"

    if not console.is_terminal:
        return watch(query, console, lambda progress: say(console, f"{title()} {board.line(progress)}"), _REFRESH_S)
    asked_for = f"word count, {asked.rate:,.0f} sentences/s asked for"
    with Live(console=console, auto_refresh=False) as live:
        return watch(
            query,
            console,
            lambda progress: live.update(board.board(f"{asked_for}, {title()}", progress), refresh=True),
            _REFRESH_S,
        )


def summary(query: Query, tally: Tally, asked: Asked, seconds: float) -> list[str]:
    """Sum the run up, or raise DemoError if something was lost or miscounted."""
    progress, latency = query.lastProgress, query.latency
    if progress is None:
        raise DemoError("Expected at least one report from the workers, found none.", "Run it again with --debug.")
    read, completed = board.read(progress), int(progress["completed"])
    if read != completed:
        raise DemoError(
            f"{read:,} sentences were read and {completed:,} completed: {read - completed:,} are lost.",
            "Please report this, with the output of tailrace --debug demo.",
        )
    expected = plain_count(completed)
    check_counts(tally.counts, expected)
    return [
        f"sentences/s  {completed / seconds:,.0f} of {asked.rate:,.0f} asked for",
        f"counted      {completed:,} sentences, {expected.total():,} words in {seconds:.1f} s",
        f"latency      {board.latency_text(latency)}, from when a sentence was due until its last word was counted",
        f"replays      {progress['replays']:,}",
        f"lost         {read - completed:,}",
        f"counts exact: {len(expected):,} different words, each as often as in a plain Python loop",
    ]


def check_counts(found: Mapping[str, int], expected: Counter[str]) -> None:
    """Hold every count against the plain loop's."""
    wrong = [word for word in found.keys() | expected.keys() if found.get(word, 0) != expected[word]]
    if wrong:
        some = ", ".join(f"{word!r} {found.get(word, 0)} for {expected[word]}" for word in wrong[:_WRONG_SHOWN_MAX])
        raise DemoError(
            f"{len(wrong):,} of {len(expected):,} counts differ from those of a plain Python loop: {some}.",
            "If a worker was killed this is to be expected: state is in memory in this release. Else please report it.",
        )
