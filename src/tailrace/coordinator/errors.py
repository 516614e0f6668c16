"""How a query can fail, each with what to do about it."""

from __future__ import annotations

from tailrace.errors import TailraceError


class QueryError(TailraceError):
    """A query has failed; the message says why."""

    exit_code = 5


class StartError(QueryError):
    """A query could not be started."""


class WorkerLostError(QueryError):
    """A worker was lost and did not come back."""


class StateLostError(QueryError):
    """A worker was lost, and with it the state of tasks it had; state is kept in memory."""


class VersionMismatchError(StartError):
    """Executors have another version of Tailrace or of Python than the driver."""


class DrainTimeoutError(QueryError):
    """Open tuples did not come to an end while the query was being stopped."""


class StopTimeoutError(QueryError):
    """The query was told to stop and has not ended in time."""


class CoordinatorError(QueryError):
    """The coordinator itself failed: a mistake in Tailrace, or of a policy."""


class PolicyError(QueryError):
    """A policy raised instead of deciding."""


class StateReadError(QueryError):
    """The state of a running query could not be read."""


class CallbackError(QueryError):
    """Code of the user that runs on the driver failed: a sink, a listener, a log handler, a companion."""
