"""Finds whose fault an error is, and says so: a key function, a grouping function, a source, or a call of an operator.

Asked only when something has failed, so it may try a user's function again to find the value that did it. The brain and
the steps raise or report what it gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.errors import TailraceError
from tailrace.program.errors import CloseError, OperatorError, operator_error, shown, user_stack
from tailrace.topology.callables import function_name
from tailrace.topology.errors import MissingFieldError
from tailrace.topology.operators import KEYED_VERBS
from tailrace.worker.execution.task import CloseWork, CommitWork, ReadWork, TickWork

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.topology.operators import OperatorSpec
    from tailrace.topology.plan import Plan
    from tailrace.worker.execution.task import Work


def call_error(operator: str, task: int, call: str, error: BaseException) -> TailraceError:
    """Name the operator whose ``open()``, ``tick()``, ``commit()`` or the like raised: there is no value to blame."""
    if isinstance(error, TailraceError):
        return type(error)(f"Operator {operator!r}, task {task}, {call}: {error.message}", error.hint)
    kind = CloseError if call == "close()" else OperatorError
    return kind(
        f"Operator {operator!r}, task {task}: {call} failed: {type(error).__name__}: {error}",
        f"Mend {call}.\n{user_stack(error)}",
    )


def named_error(work: Work) -> TailraceError:
    """Name what a piece of work has failed with."""
    task, error = work.task, work.error
    if isinstance(error, TailraceError) or error is None:
        return error or OperatorError(f"Operator {task.name!r}, task {task.index}, failed.")
    operator = task.chain.at.operator
    for kind, call in ((TickWork, "tick()"), (CloseWork, "close()"), (CommitWork, "commit()")):
        if isinstance(work, kind):
            return call_error(operator, task.index, call, error)
    if isinstance(work, ReadWork) and not work.batch.values:
        return OperatorError(
            f"Source {operator!r}, task {task.index}, cannot read on in its partition {work.partition}: "
            f"{type(error).__name__}: {error}",
            "Mend the reader. For a single bad record it returns tr.Unreadable(raw, error) among the values, which the "
            f"source's on_error='skip' or 'dead_letter' then leaves out.\n{user_stack(error)}",
        )
    return operator_error(operator, task.index, work.batch.values[:1], error, hint="Mend the function.")


def step_error(spec: OperatorSpec, task: int, value: Any, error: Exception) -> TailraceError:
    """Name what an operator has failed with on a value: its key function, or else its function."""
    found = None
    if spec.verb == "count":  # what reaches it are the keys
        found = key_error(spec.name, None, value, error)
    elif spec.verb in KEYED_VERBS and spec.key is not None:
        found = key_error(spec.name, spec.key, value, error)
    return found or operator_error(spec.name, task, value, error)


def grouping_error(work: Work, plan: Plan, error: Exception) -> Exception:
    """Find the key or grouping function that failed while the outputs of a piece of work were shared out."""
    if isinstance(error, TailraceError) and not isinstance(error, MissingFieldError):
        return error
    for edge, values, _ in work.outputs:
        way = plan.edges[edge]
        target = plan.stages[way.dst_stage]
        for value in values if way.grouping.fn is not None else ():
            if way.grouping.kind == "fields":
                found = key_error(target.head.name, way.grouping.fn, value, error)
            else:
                found = _custom_error(target.head.name, way.grouping.fn, value, target.tasks)
            if found is not None:
                return found
    return error


def key_error(operator: str, key_of: Callable[[Any], Any] | None, value: Any, cause: Exception) -> OperatorError | None:
    """Say what is wrong with the key of a value, if that is what was raised; without a function it is its own key."""
    name = "" if key_of is None else f", function {function_name(key_of)!r},"
    try:
        key = value if key_of is None else key_of(value)
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything
        if type(error) is not type(cause):
            return None
        return OperatorError(
            f"key_by of operator {operator!r}{name} failed on {shown(value)}: {type(error).__name__}: {error}",
            f"Mend the key function, or filter such values out in front of it.\n{user_stack(error)}",
        )
    try:
        hash(key)
    except Exception as error:  # noqa: BLE001 - a user's __hash__ may raise anything
        if type(error) is not type(cause):
            return None
        of = "" if key_of is None else f" for {shown(value)}"
        return OperatorError(
            f"key_by of operator {operator!r}{name} gave {shown(key)}{of}, a {type(key).__name__}, which cannot be "
            f"hashed ({type(error).__name__}: {error}).",
            "Give a tuple in place of a list, a frozenset in place of a set, or one field of it.",
        )
    return None


def _custom_error(operator: str, fn: Any, value: Any, tasks: int) -> OperatorError | None:
    try:
        found = fn(value, tasks)
        _ = found if isinstance(found, int) else [int(each) for each in found]
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything
        return OperatorError(
            f"The grouping function {function_name(fn)!r} in front of operator {operator!r} failed on {shown(value)}: "
            f"{type(error).__name__}: {error}",
            f"It is to give the index of a task, or several.\n{user_stack(error)}",
        )
    return None
