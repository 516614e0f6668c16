"""What goes wrong at a worker, as the driver has it: errors that workers tell of, made again under their own names.

Used by the coordinator's brain and its loop. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.checkpoint import errors as checkpoint_errors
from tailrace.connect import errors as connect_errors
from tailrace.program.errors import CloseError, OperatorError, ProtocolError
from tailrace.routing.fixed import RouteError
from tailrace.state.errors import RAISED_BY_WORKERS

from . import errors

if TYPE_CHECKING:
    from tailrace import protocol
    from tailrace.errors import TailraceError


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
        checkpoint_errors.CheckpointCorruptError, checkpoint_errors.CheckpointVersionError, *RAISED_BY_WORKERS,
    ]  # fmt: skip
    kinds = {each.__name__: each for each in named}
    return kinds.get(failure.kind, errors.QueryError)(failure.message, failure.hint)
