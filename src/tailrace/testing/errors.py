"""What can go wrong with a query that runs in process, besides what goes wrong with any query."""

from __future__ import annotations

from tailrace.errors import TailraceError


class EndlessError(TailraceError):
    """A source that never ends would let the test run for ever."""

    exit_code = 2


class StalledError(TailraceError):
    """The query is not at its end, and nothing of it moves any more."""


class UnknownSinkError(TailraceError):
    """A result was asked for a sink that the topology has not."""

    exit_code = 2
