"""What can go wrong while a query runs, told with operator, task and the offending tuple.

Workers raise most of it and the coordinator raises it again at the driver, under the name that came with the failure.
"""

from __future__ import annotations

import traceback
from typing import Any

from tailrace.connect.errors import SchemaError
from tailrace.errors import TailraceError

SHOWN_CHARS_MAX = 200
TRACEBACK_CHARS_MAX = 4000


class OperatorError(TailraceError):
    """A user's function raised; carries where, on what, and the user's own stack."""

    exit_code = 4


class CloseError(OperatorError):
    """``close()`` of an operator or a sink raised: what it was to make durable may not be."""


class ProtocolError(TailraceError):
    """A message came that nobody here understands."""


class LeaseLostError(TailraceError):
    """The worker has not heard from the coordinator for longer than its lease, and stopped."""


class FencedError(TailraceError):
    """A newer attempt has this worker's slot; the worker stopped."""


class InvariantError(TailraceError):
    """Something does not hold that must always hold in a brain: a fault in Tailrace, not in a user's code."""


class MoveError(TailraceError):
    """A task cannot be moved to another worker, or was not; it goes on where it is."""


def shown(value: Any) -> str:
    """Show a tuple, shortened; never raises, whatever the value's ``__repr__`` does."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a user's __repr__ may raise anything
        text = f"<{type(value).__name__} whose repr failed: {type(error).__name__}>"
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 1]}…"


def is_ours(filename: str) -> bool:
    """Whether a frame is one of ours that lead to the user's code."""
    return "/tailrace/worker/" in filename


def user_stack(error: BaseException) -> str:
    """Format the user's stack, without the frames of ours that lead to it."""
    stack = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in stack if not is_ours(frame.filename)] or stack
    text = "".join(traceback.format_list(frames)) + "".join(traceback.format_exception_only(error))
    return text[-TRACEBACK_CHARS_MAX:].rstrip()


_ON_ERROR_HINT = (
    "Mend the function, or give the operator on_error='skip' or 'dead_letter' to go on without such tuples."
)


def operator_error(
    operator: str, task: int, value: Any, error: BaseException, *, hint: str = _ON_ERROR_HINT
) -> TailraceError:
    """Make the error that ends a query because of a user's function; what is wrong with a row keeps its own name."""
    if isinstance(error, SchemaError):
        return type(error)(f"Operator {operator!r}, task {task}: {error.message}", error.hint)
    return OperatorError(
        f"Operator {operator!r}, task {task}, failed on {shown(value)}: {type(error).__name__}: {error}",
        f"{hint}\n{user_stack(error)}",
    )
