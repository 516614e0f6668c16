"""Says what a command is doing and stays with a query until it ends; Ctrl-C drains it, a second one ends it at once.

``demo`` and ``run`` use it. On a terminal steps have a spinner, elsewhere they are plain lines.
"""

from __future__ import annotations

import contextlib
import enum
import signal
import time
from typing import TYPE_CHECKING

from rich.live import Live

from . import board

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from tailrace.coordinator.query import Query

    from .board import Progress

EXIT_INTERRUPTED = 130
_REFRESH_S = 0.2
_LINE_EVERY_S = 1.0


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


def watch_live(query: Query, console: Console, head: str, title: Callable[[], str]) -> WatchEnd:
    """Show a table that is renewed on a terminal, a line per second elsewhere; the title is asked for each time."""
    shown_s = time.monotonic()

    def print_line(progress: Progress) -> None:
        nonlocal shown_s
        said = title()
        if time.monotonic() - shown_s >= _LINE_EVERY_S:
            shown_s = time.monotonic()
            say(console, f"{said} {board.line(progress)}")

    if not console.is_terminal:
        return watch(query, console, print_line, _REFRESH_S)
    with Live(console=console, auto_refresh=False) as live:
        return watch(
            query,
            console,
            lambda progress: live.update(board.board(f"{head}, {title()}", progress), refresh=True),
            _REFRESH_S,
        )


def _drain(query: Query, console: Console) -> WatchEnd:
    try:
        say(console, "Stopping: what was read is finished first; Ctrl-C again ends at once.")
        query.stop()
    except KeyboardInterrupt:
        say(console, "Ending at once.")
        query.stop(now=True)
        return WatchEnd.AT_ONCE
    return WatchEnd.DRAINED
