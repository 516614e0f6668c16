"""Runs the jobs behind the claims one after the other, each in a process of its own, and gives what they found.

What an earlier, interrupted run has found with the same code is taken over. A job that fails or takes far too long is
a reason, not an end: the others go on. Called by ``cli`` and ``watch``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.bench import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .jobs import Job
    from .store import Store

#: A job may take this many times what is planned, and never less than a minute and a half.
LIMIT_FACTOR, LIMIT_MIN_S = 3.0, 90.0
EXIT_TERMINATED = 143
_POLL_S = 0.2
_END_S = 20.0
_BAR_MISSED = 1
_LAST_WORDS = 300


@dataclass(frozen=True)
class Outcome:
    """What a job found, or why it found nothing."""

    result: Mapping[str, Any] | None
    reason: str = ""
    taken_over: bool = False


def run_all(
    jobs: Sequence[Job],
    store: Store,
    planned_s: Callable[[Job], float],
    *,
    quick: bool,
    fresh: bool = False,
    tell: Callable[[Job, float], None] = lambda _job, _seconds: None,
) -> dict[Job, Outcome]:
    """Run what is not there yet; ``tell`` hears which job runs and for how many seconds it has."""
    found: dict[Job, Outcome] = {}
    for job in jobs:
        tell(job, 0.0)
        missing = job.missing()
        kept = None if fresh or missing else store.load(job)
        if missing:
            found[job] = Outcome(None, missing)
        elif kept is not None:
            found[job] = Outcome(kept, taken_over=True)
        else:
            found[job] = _run(job, store, planned_s(job), quick=quick, tell=tell)
    return found


def taken_over(jobs: Sequence[Job], store: Store) -> dict[Job, Outcome]:
    """Only what earlier runs have found, whatever code they were of."""
    kept = {job: store.load(job, any_code=True) for job in jobs}
    return {job: Outcome(found, "" if found else job.missing() or "it was not run", taken_over=True)
            for job, found in kept.items()}  # fmt: skip


def _run(job: Job, store: Store, planned_s: float, *, quick: bool, tell: Callable[[Job, float], None]) -> Outcome:
    load = machine.sample_load()
    limit_s = max(LIMIT_MIN_S, LIMIT_FACTOR * planned_s)
    with tempfile.TemporaryDirectory(prefix="tailrace-papers-") as folder:
        file, log = Path(folder) / "found.json", Path(folder) / "log"
        began_s = time.monotonic()
        with log.open("wb") as output:
            code = _wait(job, job.command(file, quick=quick), output, limit_s, tell)
        took_s = time.monotonic() - began_s
        if code is None:
            return Outcome(None, f"it was ended after {limit_s:.0f} s")
        # A bench leaves with 1 when it misses a bar of its own; its figures are there all the same.
        if code not in {0, _BAR_MISSED} or not file.exists():
            return Outcome(None, f"it failed (exit code {code}): {_last_words(log)}")
        return Outcome(store.save(job, json.loads(file.read_text(encoding="utf-8")), took_s, load))


def _wait(job: Job, command: list[str], output: Any, limit_s: float, tell: Callable[[Job, float], None]) -> int | None:
    """The exit code, or nothing when the time ran out."""
    began_s = time.monotonic()
    # A session of its own: what a bench started is ended with it.
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
    )
    with _ended(process):
        while process.poll() is None:
            passed_s = time.monotonic() - began_s
            if passed_s > limit_s:
                return None
            tell(job, passed_s)
            time.sleep(_POLL_S)
        return process.returncode


@contextlib.contextmanager
def polite_end() -> Iterator[None]:
    """Let SIGTERM end this process as Ctrl-C does, so that the job at hand, in a session of its own, ends too."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Whatever comes, leave no process behind: a polite end first, since a bench has a Spark to stop."""
    try:
        yield
    finally:
        for number, patience_s in ((signal.SIGTERM, _END_S), (signal.SIGKILL, _END_S)):
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(patience_s)


def _last_words(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    return " ".join(text[-_LAST_WORDS:].split()) or "it said nothing"
