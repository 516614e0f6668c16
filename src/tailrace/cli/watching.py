"""Says what a command is doing and stays with a query until it ends; Ctrl-C drains it, a second one ends it at once.

``demo`` and ``run`` use it. On a terminal steps have a spinner, elsewhere they are plain lines.
"""

from __future__ import annotations

import contextlib
import enum
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from tailrace.coordinator.query import Query

    from .board import Progress

EXIT_INTERRUPTED = 130


class WatchEnd(enum.Enum):
    """How a query came to its end."""

    BY_ITSELF = enum.auto()
    DRAINED = enum.auto()
    AT_ONCE = enum.auto()


@contextlib.contextmanager
def step(console: Console, text: str) -> Iterator[None]:
    """Show what is being done while it is done."""
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        say(console, text)
        yield


def say(console: Console, text: str) -> None:
    """Print a line as it is: never wrapped, never coloured."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def watch(query: Query, console: Console, show: Callable[[Progress], None], every_s: float) -> WatchEnd:
    """Show each new report until the query ends; raises what made it fail."""
    # PySpark's own handler cancels all jobs, the one that hosts the workers included: nothing could drain then.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    shown = 1  # the first is written as the query starts and has nothing in it
    try:
        while not query.awaitTermination(every_s):
            progress = query.lastProgress
            if progress is not None and progress["sequence"] > shown and progress["state"] == "running":
                shown = progress["sequence"]
                show(progress)
    except KeyboardInterrupt:
        return _drain(query, console)
    return WatchEnd.BY_ITSELF


def _drain(query: Query, console: Console) -> WatchEnd:
    try:
        say(console, "Stopping: what was read is finished first; Ctrl-C again ends at once.")
        query.stop()
    except KeyboardInterrupt:
        say(console, "Ending at once.")
        query.stop(now=True)
        return WatchEnd.AT_ONCE
    return WatchEnd.DRAINED
