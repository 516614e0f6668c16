"""The named errors of Lever: what was expected of the session, the jar or the event log, and what to do instead.

Raised by the session, shim and explain modules; the command line prints them without a stack trace.
"""

from __future__ import annotations

from tailrace.errors import TailraceError


class LeverError(TailraceError):
    """Base of Lever's errors."""

    exit_code = 40


class NotConfiguredError(LeverError):
    """The session was started without the settings that Lever needs before the JVM starts."""

    exit_code = 41


class UnsupportedSessionError(LeverError):
    """The session is of a kind that Lever cannot reach, such as Spark Connect."""

    exit_code = 42


class ShimError(LeverError):
    """No jar of the shim fits the installed Spark and none could be built."""

    exit_code = 43


class EventLogError(LeverError):
    """A file is not an event log, or holds nothing to analyse."""

    exit_code = 44


class PlotError(LeverError):
    """A plot was asked for that cannot be drawn or written here."""

    exit_code = 46
