"""How a query can fail, each with what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.checkpoint import errors as checkpoint_errors
from tailrace.connect import errors as connect_errors
from tailrace.errors import TailraceError
from tailrace.program.errors import CloseError, OperatorError, ProtocolError
from tailrace.routing.fixed import RouteError

if TYPE_CHECKING:
    from tailrace import protocol


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


def not_understood(slot: int, what: str) -> ProtocolError:
    """The error of a query one of whose workers says something that the coordinator knows nothing of."""
    return ProtocolError(
        f"Worker {slot} said something that the coordinator does not understand: {what}.",
        "Use the same version of Tailrace at the driver and on the executors.",
    )


def rebuilt(failure: protocol.Failure) -> Exception:
    """Make a worker's error again on the driver, under its own name where that is one of ours."""
    named: list[type[TailraceError]] = [
        OperatorError, CloseError, ProtocolError, RouteError, *connect_errors.ConnectError.every(),
        checkpoint_errors.CheckpointCorruptError, checkpoint_errors.CheckpointVersionError,
    ]  # fmt: skip
    kinds = {each.__name__: each for each in named}
    return kinds.get(failure.kind, QueryError)(failure.message, failure.hint)
