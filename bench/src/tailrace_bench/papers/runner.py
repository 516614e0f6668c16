"""Runs the jobs behind the claims, each in a process of its own, and gives what they found.

Benches run alone, one after the other, since they measure; simulations, which only compute, fill the cores beside each
other. What an earlier, interrupted run has found with the same code is taken over. A job that fails is tried once more;
one that fails again or takes far too long is a reason, not an end: the others go on. Called by ``cli`` and ``watch``.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace_bench.measurement import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .jobs import Job
    from .store import Store

    #: Hears which job runs and for how many seconds it has; ``OVER`` when it has ended.
    Tell = Callable[[Job, float], None]

#: A job may take this many times what is planned, and never less than two minutes.
LIMIT_FACTOR, LIMIT_MIN_S = 2.5, 120.0
ATTEMPTS = 2
OVER = math.inf
EXIT_TERMINATED = 143
_POLL_S = 0.2
_END_S = 20.0
_BAR_MISSED = 1
_LAST_WORDS = 300


@dataclass(frozen=True)
class JobOutcome:
    """What a job found, or why it found nothing."""

    result: Mapping[str, Any] | None
    reason: str = ""
    taken_over: bool = False


def lanes(job: Job) -> int:
    """How many jobs of this kind run beside each other."""
    return machine.cores() if job.kind == "simulate" else 1


def run_all(
    jobs: Sequence[Job],
    store: Store,
    planned_s: Callable[[Job], float],
    *,
    quick: bool,
    fresh: bool = False,
    tell: Tell = lambda _job, _seconds: None,
) -> dict[Job, JobOutcome]:
    """Run what is not there yet, benches first; the longest simulations begin, so that the cores end together."""
    found: dict[Job, JobOutcome] = {}
    waiting: list[Job] = []
    for job in jobs:
        missing = job.missing()
        kept = None if fresh or missing else store.load(job)
        if missing or kept is not None:
            found[job] = JobOutcome(kept, missing or "", taken_over=kept is not None)
            tell(job, OVER)
        else:
            waiting.append(job)
    waiting.sort(key=lambda job: (True, -planned_s(job)) if job.kind == "simulate" else (False, 0.0))
    with contextlib.ExitStack() as ended:
        running: list[_RunningJob] = []
        load: machine.OtherLoad | None = None
        while waiting or running:
            while waiting and len(running) < min(lanes(job) for job in (waiting[0], *(run.job for run in running))):
                if load is None or not running:  # the work of others, not that of the job beside
                    load = machine.sample_load()
                run = _RunningJob(waiting.pop(0), store, planned_s, load, quick=quick)
                ended.callback(run.end)
                running.append(run)
            for run in list(running):
                tell(run.job, run.passed_s)
                outcome = run.outcome()
                if outcome is not None:
                    found[run.job] = outcome
                    running.remove(run)
                    tell(run.job, OVER)
            time.sleep(_POLL_S)
    return {job: found[job] for job in jobs}


def taken_over(jobs: Sequence[Job], store: Store) -> dict[Job, JobOutcome]:
    """Only what earlier runs have found, whatever code they were of."""
    kept = {job: store.load(job, any_code=True) for job in jobs}
    return {job: JobOutcome(found, "" if found else job.missing() or "it was not run", taken_over=True)
            for job, found in kept.items()}  # fmt: skip


class _RunningJob:
    """One job under way: its process, its limit and how often it was begun."""

    def __init__(
        self, job: Job, store: Store, planned_s: Callable[[Job], float], load: machine.OtherLoad, *, quick: bool
    ) -> None:
        self.job = job
        self._store = store
        self._quick = quick
        self._limit_s = max(LIMIT_MIN_S, LIMIT_FACTOR * planned_s(job))
        self._attempts = 0
        self._load = load
        self._begin()

    def _begin(self) -> None:
        self._attempts += 1
        self._folder = tempfile.TemporaryDirectory(prefix="tailrace-papers-")
        self._file, self._log = Path(self._folder.name) / "found.json", Path(self._folder.name) / "log"
        self._began_s = time.monotonic()
        with self._log.open("wb") as output:
            # A session of its own: what a bench started is ended with it.
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self.job.command(self._file, quick=self._quick),
                stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    @property
    def passed_s(self) -> float:
        """Since this attempt began."""
        return time.monotonic() - self._began_s

    def outcome(self) -> JobOutcome | None:
        """What it found, or nothing while it runs."""
        code = self._process.poll()
        if code is None:
            if self.passed_s <= self._limit_s:
                return None
            self.end()
            return JobOutcome(None, f"it was ended after {self._limit_s:.0f} s")
        took_s = self.passed_s
        # A bench leaves with 1 when it misses a bar of its own; its figures are there all the same.
        if code in {0, _BAR_MISSED} and self._file.exists():
            document = json.loads(self._file.read_text(encoding="utf-8"))
            self.end()
            return JobOutcome(self._store.save(self.job, document, took_s, self._load))
        reason = f"it failed (exit code {code}): {_last_words(self._log)}"
        self.end()
        if self._attempts < ATTEMPTS:
            self._begin()
            return None
        return JobOutcome(None, reason)

    def end(self) -> None:
        """Whatever comes, leave nothing behind: a polite end first, since a bench has a Spark to stop."""
        for number, patience_s in ((signal.SIGTERM, _END_S), (signal.SIGKILL, _END_S)):
            if self._process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(patience_s)
        self._folder.cleanup()


@contextlib.contextmanager
def polite_end() -> Iterator[None]:
    """Let SIGTERM end this process as Ctrl-C does, so that the jobs at hand, in sessions of their own, end too."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _last_words(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    return " ".join(text[-_LAST_WORDS:].split()) or "it said nothing"
