"""Checks of one operator by itself: its options, and whether its functions can be called as they will be.

``graph`` runs them while the user draws, so that the stack trace ends at the line to change; ``validate`` runs them
again, because a topology can also be made by hand. Pure.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from tailrace.state.declared import TAKEN, States
from tailrace.state.errors import StateDeclarationError
from tailrace.state.named import check_declarations, declarations

from ..errors import nearest
from .callables import check_function, check_operator_class, described
from .errors import ErrorPolicyError, GroupingError, NotCallableError, OptionError, TaskCountError
from .operators import (
    BATCH_KINDS,
    CONCURRENCY_DEFAULT,
    EMITS,
    ERROR_POLICIES,
    KEYED_VERBS,
    TASKS_MAX,
    UPDATE_VERBS,
    Aggregation,
    KeyedOperator,
    Operator,
    OperatorSpec,
)
from .options import CallOptions, KeyedOptions, SinkOptions, SourceOptions, UpdateOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CONCURRENCY_MAX = 100_000
_TRANSACTION = ("prepare", "commit", "abort")

OPTIONS: dict[str, frozenset[str]] = {
    "source": SourceOptions.__optional_keys__,
    "map": CallOptions.__optional_keys__,
    "filter": CallOptions.__optional_keys__,
    "flat_map": CallOptions.__optional_keys__,
    "map_batches": SinkOptions.__optional_keys__,
    "process": CallOptions.__optional_keys__,
    "reduce": UpdateOptions.__optional_keys__,
    "count": UpdateOptions.__optional_keys__,
    "aggregate": UpdateOptions.__optional_keys__,
    "keyed_process": SinkOptions.__optional_keys__ | {"states"},
    "branch": KeyedOptions.__optional_keys__,
    "sink": SinkOptions.__optional_keys__,
}


def check_options(name: str, verb: str, options: Mapping[str, object]) -> None:
    """Refuse options that an operator of this verb does not have."""
    for option in options:
        if option not in OPTIONS[verb]:
            raise OptionError(f"Operator {name!r} ({verb}) has no option {option!r}.", nearest(option, OPTIONS[verb]))


def check_spec(spec: OperatorSpec) -> None:
    """Check everything about an operator that can be seen without the rest of the topology."""
    if spec.verb not in OPTIONS:
        raise OptionError(f"Operator {spec.name!r} has the unknown verb {spec.verb!r}.", nearest(spec.verb, OPTIONS))
    check_task_count(spec.name, spec.tasks)
    check_error_policy(spec.name, spec.on_error)
    check_concurrency(spec.name, spec.concurrency)
    check_emit(spec)
    _CHECKS.get(spec.verb, _check_plain)(spec)
    if spec.verb in KEYED_VERBS:
        check_key(spec.name, spec.key)


def check_emit(spec: OperatorSpec) -> None:
    """Refuse what is neither every update nor the last one, and operators that know no updates."""
    if spec.emit not in EMITS or (spec.emit != "update" and spec.verb not in UPDATE_VERBS):
        raise OptionError(
            f"Operator {spec.name!r} ({spec.verb}) has emit={spec.emit!r}; count, reduce and aggregate take "
            "'update' or 'final', the others always emit as values come.",
            "emit='update' gives a key again with every value of it, emit='final' once when the stream has ended.",
        )


def check_concurrency(name: str, concurrency: object) -> None:
    """Refuse numbers of open calls that are no whole number within the limits."""
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= CONCURRENCY_MAX:
        raise OptionError(
            f"concurrency of operator {name!r} must be 1 to {CONCURRENCY_MAX:,}, found {concurrency!r}.",
            f"Give the number of calls that may be open at once, or leave it out for {CONCURRENCY_DEFAULT}.",
        )


def check_task_count(name: str, tasks: object) -> None:
    """Refuse task counts that are no whole number within the limits; None is filled in later."""
    if tasks is None:
        return
    if isinstance(tasks, bool) or not isinstance(tasks, int) or not 1 <= tasks <= TASKS_MAX:
        raise TaskCountError(
            f"tasks of operator {name!r} must be a whole number from 1 to {TASKS_MAX:,}, found {tasks!r}.",
            "Give the number of parallel tasks, or leave it out to have as many as upstream.",
        )


def check_error_policy(name: str, policy: object) -> None:
    """Refuse policies for failing tuples that nobody knows."""
    if policy not in ERROR_POLICIES:
        raise ErrorPolicyError(
            f"on_error of operator {name!r} must be 'fail', 'skip' or 'dead_letter', found {policy!r}.",
            nearest(str(policy), ERROR_POLICIES),
        )


def check_key(name: str, key: object) -> None:
    """Refuse keys that are no plain function of a value."""
    if not callable(key):
        raise GroupingError(
            f"Operator {name!r} needs a function from a value to its key, found {described(key)}.",
            "Give key_by a function such as `lambda v: v[0]`, or operator.itemgetter(...).",
        )
    check_function(name, "key_by", key, ("value",), may_await=False)


def _check_plain(spec: OperatorSpec) -> None:
    check_function(spec.name, spec.verb, spec.fn, ("value",), may_yield=spec.verb == "flat_map")


def _check_process(spec: OperatorSpec) -> None:
    keyed = spec.verb == "keyed_process"
    operator_class = spec.fn if isinstance(spec.fn, type) else type(spec.fn)
    check_states(spec, operator_class)
    if not issubclass(operator_class, Operator):
        args = ("key", "value", "state") if keyed else ("value",)
        check_function(spec.name, "process", spec.fn, args, may_yield=True, may_await=not keyed)
        return
    if issubclass(operator_class, KeyedOperator) and not keyed:
        raise NotCallableError(
            f"Operator {spec.name!r} is the KeyedOperator {operator_class.__name__!r}, but its stream has no keys.",
            "Draw it as stream.key_by(...).process(...), or derive it from Operator.",
        )
    check_operator_class(spec.name, spec.fn, operator_class, keyed=keyed)


def check_states(spec: OperatorSpec, operator_class: type) -> None:
    """Refuse declarations of states that nobody would keep, or that are in each other's way."""
    keyed_class = issubclass(operator_class, KeyedOperator)
    if declarations(operator_class) and not keyed_class:
        raise StateDeclarationError(
            f"Operator {spec.name!r} declares states, and {operator_class.__name__!r} is no KeyedOperator.",
            "States are kept by key: derive it from tr.KeyedOperator and draw it as stream.key_by(...).process(...).",
        )
    check_declarations(operator_class)
    if spec.states is None:
        return
    if keyed_class or not (isinstance(spec.states, type) and issubclass(spec.states, States)):
        raise StateDeclarationError(
            f"state= of operator {spec.name!r} must be a class derived from tr.States, for a function; "
            f"found {described(spec.states)} for {described(spec.fn)}.",
            "A KeyedOperator declares its states as attributes of its own.",
        )
    check_declarations(spec.states, TAKEN)


def _check_reduce(spec: OperatorSpec) -> None:
    check_function(spec.name, "reduce", spec.fn, ("combined", "value"), may_await=False)


def _check_count(spec: OperatorSpec) -> None:
    if spec.fn is not None:
        raise NotCallableError(
            f"Operator {spec.name!r} counts and takes no function, found {described(spec.fn)}.",
            "Use .reduce or .aggregate for a function of your own.",
        )


def _check_aggregate(spec: OperatorSpec) -> None:
    if not isinstance(spec.fn, Aggregation):
        raise NotCallableError(
            f"Operator {spec.name!r} needs an Aggregation(init, add, result), found {described(spec.fn)}.",
            "Draw it with .aggregate(init, add, result).",
        )
    check_function(spec.name, "aggregate: init", spec.fn.init, (), may_await=False)
    check_function(spec.name, "aggregate: add", spec.fn.add, ("accumulator", "value"), may_await=False)
    if spec.fn.result is not None:
        check_function(spec.name, "aggregate: result", spec.fn.result, ("accumulator",), may_await=False)


def _check_branch(spec: OperatorSpec) -> None:
    if not isinstance(spec.fn, tuple) or not spec.fn:
        raise NotCallableError(
            f"Operator {spec.name!r} (branch) needs at least one predicate, found none.",
            "Give one function per stream you want; the last stream returned holds the rest.",
        )
    for predicate in spec.fn:
        check_function(spec.name, "branch", predicate, ("value",), may_await=False)


def _check_source(spec: OperatorSpec) -> None:
    _check_connector(spec, "source", ("partitions", "open"), _source_hint)


def _check_sink(spec: OperatorSpec) -> None:
    _check_connector(spec, "sink", ("open", "write", "close", "begin", "receive", "attend", "finish"), _sink_hint)
    has = [name for name in _TRANSACTION if callable(getattr(spec.fn, name, None))]
    if has and len(has) < len(_TRANSACTION):
        raise NotCallableError(
            f"The sink of {spec.name!r} has {' and '.join(has)} only; one that publishes with the epochs of a "
            f"checkpoint has {', '.join(_TRANSACTION)}.",
            "Add the rest, or choose other names for methods that are no part of this.",
        )


def _check_connector(spec: OperatorSpec, kind: str, methods: tuple[str, ...], hint: Callable[[Any], str]) -> None:
    is_one = not isinstance(spec.fn, type) and all(callable(getattr(spec.fn, method, None)) for method in methods)
    if not is_one:
        raise NotCallableError(f"Operator {spec.name!r} needs a {kind}, found {described(spec.fn)}.", hint(spec.fn))


def _source_hint(found: object) -> str:
    if isinstance(found, str):
        return f"For the lines of a file use tr.sources.lines({found!r})."
    if isinstance(found, list | tuple | range):
        return "For values in memory use tr.sources.items(...)."
    return "Use one of tr.sources, called with its arguments, or an object of a class derived from tr.Source."


def _sink_hint(found: object) -> str:
    if callable(found) and not isinstance(found, type):
        return "To call a function for each value use tr.sinks.function(...); the makers in tr.sinks need calling."
    return "Use one of tr.sinks, called with its arguments, or an object of a class derived from tr.Sink."


def _check_map_batches(spec: OperatorSpec) -> None:
    fn, of = spec.fn
    if of not in BATCH_KINDS:
        raise OptionError(
            f"Operator {spec.name!r} takes batches of one of {', '.join(BATCH_KINDS)}; found of={of!r}.",
            nearest(str(of), BATCH_KINDS),
        )
    for library in {"pyarrow", of.replace("arrow", "pyarrow")}:
        if importlib.util.find_spec(library) is None:
            raise OptionError(
                f"Operator {spec.name!r} takes batches of {of}, and {library} is not installed.",
                f"Install it: pip install {library}, on the driver and on the executors.",
            )
    check_function(spec.name, "map_batches", fn, ("batch",), may_await=False)


_CHECKS = {
    "map_batches": _check_map_batches,
    "source": _check_source,
    "process": _check_process,
    "keyed_process": _check_process,
    "reduce": _check_reduce,
    "count": _check_count,
    "aggregate": _check_aggregate,
    "branch": _check_branch,
    "sink": _check_sink,
}
