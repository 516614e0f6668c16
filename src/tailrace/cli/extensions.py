"""Commands of the second distribution, ``tailrace-bench``: found by entry point, or named with the way to install it.

``main`` lists and calls them. Nothing of that distribution is loaded before one of its commands is called.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

from .errors import CommandMissingError

if TYPE_CHECKING:
    from collections.abc import Callable

#: An entry point of this group is a command: its name, and a function that typer can read.
GROUP = "tailrace.commands"
BENCH = "tailrace-bench"
#: Its commands, and what ``tailrace --help`` says of them.
COMMANDS = {
    "bench": "Measure Tailrace beside its baselines.",
    "papers": "Run what the papers claim, and write a page with verdicts for each.",
    "bench-check": "Compare the ratios of a few quick benches with those of an earlier commit.",
}


def summaries() -> dict[str, str]:
    """Command -> a line for the help."""
    installed = _installed()
    return {name: text if name in installed else f"Needs: pip install {BENCH}." for name, text in COMMANDS.items()}


def load(name: str) -> Callable[..., None]:
    """The function of a command; a named error where the distribution is not installed."""
    point = _installed().get(name)
    if point is None:
        raise CommandMissingError(
            f"tailrace {name} is in the distribution {BENCH}, which is not installed here.",
            f"pip install {BENCH}; in a copy of the repository: pip install ./bench.",
        )
    command: Callable[..., None] = point.load()
    return command


def _installed() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=GROUP)}
