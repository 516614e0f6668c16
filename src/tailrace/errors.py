"""The root of every error Tailrace raises on purpose, and the few that several rooms share.

An error says in one sentence what was expected and what was found, and in a second one (``hint``) what to do about it.
The command line prints both without a stack trace and exits with the class's ``exit_code``.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class TailraceError(Exception):
    """Base of all named errors."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[type[TailraceError], tuple[str, str]]:
        return type(self), (self.message, self.hint)


class ConfigError(TailraceError):
    """A setting has an unknown name or a value out of its range."""

    exit_code = 2


class ShareError(TailraceError):
    """Something that must travel to another process cannot be encoded."""

    exit_code = 3


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which of the known names the user most likely meant, or list them all when none is near."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."
