"""``tailrace demo``: word count over Wikipedia on an embedded Spark, with a worker that is slow and one that is killed.

First the baselines run, then ``Policy.auto()``, both with a slow worker; then a run with checkpoints loses a worker
half-way. All are checked to the last word. Called by ``main``; touches nothing but the console and the Spark it starts.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tailrace.config import Policy, Settings
from tailrace.coordinator.reporting.latency import latency_so_far, since
from tailrace.coordinator.reporting.progress import percentiles
from tailrace.metrics.histogram import Histogram
from tailrace.start import start
from tailrace.testing.chaos import Knobs

from . import board
from .demo_recovery import run_killed
from .errors import DemoError
from .hosting import hosted
from .watching import EXIT_INTERRUPTED, WatchEnd, say, step, watch_live
from .wordcount import check_counts, plain_count, word_count

if TYPE_CHECKING:
    from tailrace.coordinator.query import Query

    from .wordcount import Tally

#: How many times slower the last worker is.
SLOWNESS = 4.0
#: How much of the slow worker's time an even share of the sentences takes.
_USE = 0.8
#: The part of a run that its tail is taken from: by then auto has made up its mind.
_SETTLED = 0.5
POLICIES = {"baselines": Policy(), "auto": Policy.auto()}


@dataclass(frozen=True)
class DemoOptions:
    """The options of the command."""

    seconds: float
    rate: float
    workers: int
    debug: bool = False

    @property
    def count(self) -> int:
        """How many sentences that makes."""
        return max(1, round(self.seconds * self.rate))

    @property
    def work_s(self) -> float:
        """How long splitting one sentence takes at a worker that is not slow."""
        return _USE * self.workers / (SLOWNESS * self.rate)


@dataclass
class DemoRun:
    """One of the two runs."""

    name: str
    query: Query
    tally: Tally
    started_s: float = field(default_factory=time.monotonic)
    end: WatchEnd = WatchEnd.BY_ITSELF
    #: All latencies up to the point from which its tail is taken.
    before: Histogram | None = None

    @property
    def seconds(self) -> float:
        """From its start to the last count."""
        return self.tally.ended_s - self.started_s

    @property
    def tail(self) -> dict[str, float]:
        """The latencies of its second half; of all of it where that is too short to tell."""
        return percentiles(since(self.before or Histogram(), latency_so_far(self.query)))


def demo(asked: DemoOptions) -> int:
    """Run the demo and return the exit code; a lost sentence or a wrong count is a DemoError."""
    console = Console(highlight=False)
    runs: list[DemoRun] = []
    with contextlib.ExitStack() as stack:
        with step(console, f"Starting Spark on this machine for {asked.workers} workers ..."):
            spark = stack.enter_context(hosted(asked.workers, None, debug=asked.debug))
        for name, policy in POLICIES.items():
            runs.append(_run(console, spark, asked, name, policy))
            if runs[-1].end is not WatchEnd.BY_ITSELF:
                break
        killed = None
        if runs[-1].end is WatchEnd.BY_ITSELF:
            killed = run_killed(console, spark, asked.rate, asked.seconds, asked.workers)
        with step(console, "Ending Spark ..."):
            stack.close()
    if killed is not None and killed.end is not WatchEnd.BY_ITSELF:
        say(console, "Ended before the killed worker's run was counted, so there is nothing to check.")
        return EXIT_INTERRUPTED
    if runs[-1].end is WatchEnd.AT_ONCE:
        say(console, "Ended before the open sentences were counted, so there is nothing to check.")
    else:
        for text in [*report(runs, asked), *([] if killed is None else killed.report())]:
            say(console, text)
    return 0 if runs[-1].end is WatchEnd.BY_ITSELF else EXIT_INTERRUPTED


def _run(console: Console, spark: Any, asked: DemoOptions, name: str, policy: Policy) -> DemoRun:
    with Knobs() as knobs:
        knobs.slow(asked.workers - 1, SLOWNESS)
        flow, tally = word_count(asked.rate, asked.count, asked.workers, knobs, asked.work_s)
        with step(console, f"Word count with {name}, worker {asked.workers - 1} made {SLOWNESS:.0f}x slower ..."):
            query = start(flow, spark, workers=asked.workers, policy=policy, settings=Settings(progress_s=0.25))
        run = DemoRun(name, query, tally)
        run.end = _follow(console, run, asked)
    return run


def _follow(console: Console, run: DemoRun, asked: DemoOptions) -> WatchEnd:
    def title() -> str:
        """Remember where the second half begins; gives the time passed."""
        passed_s = min(asked.seconds, time.monotonic() - run.started_s)
        if run.before is None and passed_s >= _SETTLED * asked.seconds:
            run.before = latency_so_far(run.query)
        return f"{run.name}, {passed_s:3.0f} of {asked.seconds:.0f} s"

    return watch_live(run.query, console, f"word count, {asked.rate:,.0f} sentences/s asked for", title)


def report(runs: list[DemoRun], asked: DemoOptions) -> list[str]:
    """Sum all runs up: each by itself, then their tails side by side; raises DemoError if one of them is wrong."""
    lines = []
    for run in runs:
        lines += [f"{run.name}:", *(f"  {text}" for text in summary(run.query, run.tally, asked, run.seconds)[:-2])]
    half = f"the last {1 - _SETTLED:.0%} of each run"
    lines += [f"tails of {half}, worker {asked.workers - 1} being {SLOWNESS:.0f}x slower:", *board.tails(_tails(runs))]
    choice = (runs[-1].query.lastProgress or {}).get("auto")
    if choice:
        lines.append(f"auto chose   {choice['technique']}: {choice['why']}")
    return [*lines, *summary(runs[-1].query, runs[-1].tally, asked, runs[-1].seconds)[-2:]]


def _tails(runs: list[DemoRun]) -> dict[str, dict[str, float]]:
    return {run.name: run.tail for run in runs}


def summary(query: Query, tally: Tally, asked: DemoOptions, seconds: float) -> list[str]:
    """Sum a run up, or raise DemoError if something was lost or miscounted."""
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
