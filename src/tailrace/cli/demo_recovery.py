"""The demo's last run: a word count with checkpoints loses a worker half-way, and every count is right all the same.

Called by ``demo``. The worker is a process of this machine, killed as the kernel's own out-of-memory killer would.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.checkpoint.settings import Checkpoint
from tailrace.config import Policy, Settings
from tailrace.start import start

from . import board
from .watching import WatchEnd, step, watch_live
from .wordcount import check_counts, plain_count, word_count

if TYPE_CHECKING:
    from rich.console import Console

    from tailrace.coordinator.query import Query

    from .wordcount import Tally

#: How long sentences come, as a part of the other runs; when the worker is killed, as a part of that.
_SHARE, _KILLED_AT = 0.6, 0.5
_EVERY_S = 0.5


@dataclass
class KilledRun:
    """The run, and what became of its killed worker."""

    query: Query
    tally: Tally
    count: int
    seconds: float
    started_s: float = field(default_factory=time.monotonic)
    end: WatchEnd = WatchEnd.BY_ITSELF
    #: Who was killed, in words; empty before.
    killed: str = ""

    def title(self) -> str:
        """Kill the worker when it is time; gives the time passed, and what has happened."""
        passed_s = min(self.seconds, time.monotonic() - self.started_s)
        if not self.killed and passed_s >= _KILLED_AT * self.seconds:
            self.killed = self._kill(self.query.workers_of("count")[0])
        happened = f", {self.killed}" if self.killed else ""
        return f"a worker is killed, {passed_s:3.0f} of {self.seconds:.0f} s{happened}"

    def _kill(self, worker: int) -> str:
        pid = self.query.worker_pids[worker]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return f"worker {worker} (process {pid}) killed"

    def report(self) -> list[str]:
        """Sum the run up, or raise DemoError if a count is wrong."""
        expected = plain_count(self.count)
        check_counts(self.tally.counts, expected)
        return [
            f"a worker is killed: {self.killed or 'the run was too short for it'}",
            *([f"recovery     {text}"] if (text := board.recovery_text(self.query.lastProgress or {})) else []),
            f"counted      {self.count:,} sentences, {expected.total():,} words",
            "lost         0",
            f"counts exact: {len(expected):,} different words, each as often as in a plain Python loop",
        ]


def run_killed(console: Console, spark: Any, rate: float, seconds: float, workers: int) -> KilledRun:
    """Run it."""
    seconds *= _SHARE
    count = max(1, round(seconds * rate))
    flow, tally = word_count(rate, count, workers)
    with tempfile.TemporaryDirectory(prefix="tailrace-demo-") as folder:
        with step(console, f"Word count with a checkpoint every {_EVERY_S:g} s, a worker will be killed half-way ..."):
            query = start(
                flow, spark, workers=workers, policy=Policy.auto(), settings=Settings(progress_s=0.25),
                checkpoint=Checkpoint(Path(folder), every_s=_EVERY_S),
            )  # fmt: skip
        run = KilledRun(query, tally, count, seconds)
        run.end = watch_live(query, console, f"word count, {rate:,.0f} sentences/s asked for", run.title)
    return run
