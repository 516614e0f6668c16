"""What can go wrong in a worker, told with operator, task and the offending tuple."""

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


class LeaseLostError(TailraceError):
    """The worker has not heard from the coordinator for longer than its lease, and stopped."""


class FencedError(TailraceError):
    """A newer attempt has this worker's slot; the worker stopped."""


class MoveError(TailraceError):
    """A task cannot be moved to another worker, or was not; it goes on where it is."""


def shown(value: Any) -> str:
    """Show a tuple, shortened; never raises, whatever the value's ``__repr__`` does."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a user's __repr__ may raise anything
        text = f"<{type(value).__name__} whose repr failed: {type(error).__name__}>"
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 1]}…"


def user_stack(error: BaseException) -> str:
    """Format the user's stack, without the frames of ours that lead to it."""
    stack = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in stack if "/tailrace/worker/" not in frame.filename] or stack
    text = "".join(traceback.format_list(frames)) + "".join(traceback.format_exception_only(error))
    return text[-TRACEBACK_CHARS_MAX:].rstrip()


def open_error(operator: str, task: int, error: BaseException) -> TailraceError:
    """Make the error that ends a query because something could not be opened; no error policy is for that."""
    if isinstance(error, TailraceError):
        return error
    return OperatorError(
        f"Operator {operator!r}, task {task}, failed in open(): {type(error).__name__}: {error}",
        "Mend it: nothing can be skipped before the first tuple.\n" + user_stack(error),
    )


def reader_error(source: str, task: int, error: BaseException) -> TailraceError:
    """Make the error that ends a query because a source's reader raised: it speaks of the input as a whole."""
    return OperatorError(
        f"Source {source!r}, task {task}, cannot read on: {type(error).__name__}: {error}",
        "Mend the reader. For a single bad record it returns tr.Unreadable(raw, error) among the values, which the "
        "source's on_error='skip' or 'dead_letter' then leaves out.\n" + user_stack(error),
    )


def operator_error(operator: str, task: int, value: Any, error: BaseException) -> TailraceError:
    """Make the error that ends a query because of a user's function; what is wrong with a row keeps its own name."""
    if isinstance(error, SchemaError):
        return type(error)(f"Operator {operator!r}, task {task}: {error.message}", error.hint)
    return OperatorError(
        f"Operator {operator!r}, task {task}, failed on {shown(value)}: {type(error).__name__}: {error}",
        "Mend the function, or give the operator on_error='skip' or 'dead_letter' to go on without such tuples.\n"
        + user_stack(error),
    )
