"""Runs the parts of ``tailrace bench ring`` one after the other; the registry finds it here."""

from __future__ import annotations

import contextlib
from importlib import metadata
from typing import TYPE_CHECKING

from tailrace.transport.segments import Folder
from tailrace_bench.bench import Bench, BenchOutcome
from tailrace_bench.measurement.pace import Pace

from . import messages, stages, sweep, wordcount
from .cases import FULL, NAMES, QUICK, STAGES, SWEEP, WORDCOUNT, ZMQ
from .netty import netty_version

if TYPE_CHECKING:
    from tailrace_bench.bench import BenchRequest
    from tailrace_bench.reporting.rows import Row

    from .cases import RingTimes

_LATENCY_NOTE = (
    "One-way latency counts from when a message was due. TurboStream's 45.64-99.30 % below Netty: its Netty gathered "
    "messages into batches (192 ms for 40 KB at 3,000/s), ours flushes each one on native epoll without Nagle and "
    "serialises nothing, which likely explains the difference."
)
_STAGES_NOTE = (
    f"Table I at {stages.PER_S:,} sentences/s, one task per stage, not chained; the paper's is at 10,000/s on machines "
    "of four workers each. Its two nodes are two addresses of this machine here."
)


def run(request: BenchRequest) -> BenchOutcome:
    """Give rows, notes and the versions of the peers."""
    plan, only, plots = QUICK if request.quick else FULL, request.only, request.plots
    found: list[Row] = []
    with Pace(request.console, _planned_s(plan, only)) as pace, contextlib.ExitStack() as stack:
        folder = Folder.make()
        stack.callback(folder.close)
        found += messages.rows(plan, pace, folder.path, only)
        if only in {None, SWEEP}:
            found += sweep.rows(plan, pace, folder.path)
        if only in {None, WORDCOUNT}:
            found += wordcount.rows(plan, pace)
        if only in {None, STAGES}:
            found += stages.rows(plan, pace)
    drawn = [f"Plot: {file}" for file in sweep.plots(found, plots)] if plots is not None else []
    return BenchOutcome(found, [_LATENCY_NOTE, _STAGES_NOTE, *drawn], _versions())


def _planned_s(plan: RingTimes, only: str | None) -> float:
    planned_s = messages.planned_s(plan, only)
    for name, part in ((SWEEP, sweep), (WORDCOUNT, wordcount), (STAGES, stages)):
        if only in {None, name}:
            planned_s += part.planned_s(plan)
    return planned_s


def _versions() -> dict[str, str]:
    found = {"netty": netty_version()}
    with contextlib.suppress(metadata.PackageNotFoundError):
        found[ZMQ] = metadata.version("pyzmq")
    return found


BENCH = Bench("ring", run, NAMES)
