"""Can this be called the way an operator will be called? Answers before the first tuple, with the argument that is off.

``checks`` asks for every function and operator class of a topology; nothing is called, only looked at.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from .errors import NotCallableError, OptionError
from .operators import KeyedOperator, Operator

SHOWN_CHARS_MAX = 80


def described(thing: object) -> str:
    """Say what a thing is, for an error message."""
    if inspect.isclass(thing):
        return f"the class {thing.__name__}"
    if inspect.isroutine(thing):
        return f"the function {function_name(thing)!r}"
    if inspect.isgenerator(thing) or inspect.iscoroutine(thing):
        return f"what a call of {thing.__name__!r} returned"
    shown = repr(thing)
    if len(shown) > SHOWN_CHARS_MAX:
        shown = shown[:SHOWN_CHARS_MAX] + "..."
    return shown if thing is None else f"{shown} of type {type(thing).__name__}"


def function_name(fn: Any) -> str:
    """Name a function as its author would."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = getattr(fn, "__name__", None)
    return name if isinstance(name, str) else type(fn).__name__


def check_function(
    operator: str, use: str, fn: Any, args: tuple[str, ...], *, may_yield: bool = False, may_await: bool = True
) -> None:
    """Refuse what cannot be called with these arguments, or would return another kind of thing than is asked for."""
    if not callable(fn):
        raise NotCallableError(
            f"Operator {operator!r} ({use}) needs a function, found {described(fn)}.",
            "Give the function itself, without calling it.",
        )
    if (isinstance(fn, type) and issubclass(fn, Operator)) or _makes_operator(fn):
        raise NotCallableError(
            f"Operator {operator!r} ({use}) needs a function, found the operator class {function_name(fn)!r}.",
            "Give .process the class, or an object of it if its __init__ takes arguments.",
        )
    _check_flavour(operator, use, fn, may_yield=may_yield, may_await=may_await)
    _check_arguments(operator, use, fn, args)


def _makes_operator(fn: Any) -> bool:
    return isinstance(fn, functools.partial) and isinstance(fn.func, type) and issubclass(fn.func, Operator)


def _check_flavour(operator: str, use: str, fn: Any, *, may_yield: bool, may_await: bool) -> None:
    """Tell plain, generator and async functions apart: each returns something else than it seems to."""
    name = function_name(fn)
    call = type(fn).__call__ if not inspect.isroutine(fn) and not isinstance(fn, type | functools.partial) else fn
    if inspect.isasyncgenfunction(call):
        raise NotCallableError(
            f"Operator {operator!r} ({use}) cannot run {name!r}, which is `async def` with `yield`.",
            "Collect the values in a list and return that.",
        )
    if inspect.isgeneratorfunction(call) and not may_yield:
        raise NotCallableError(
            f"Operator {operator!r} ({use}) needs a function that returns one value, and {name!r} yields.",
            "Use .flat_map for a function that yields any number of values, or return instead.",
        )
    if inspect.iscoroutinefunction(call):
        if not may_await:
            raise NotCallableError(
                f"Operator {operator!r} ({use}) needs a plain function, and {name!r} is `async def`.",
                "Await in a .map of its own in front of this operator.",
            )
        if call is not fn:
            raise NotCallableError(
                f"Operator {operator!r} ({use}) cannot tell that calling {name!r} gives something to await.",
                "Give a bound `async def` method instead of an object whose __call__ is `async def`.",
            )


def _check_arguments(operator: str, use: str, fn: Any, args: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(fn)
    except (ValueError, TypeError):  # some builtins keep theirs to themselves
        return
    try:
        signature.bind(*args)
    except TypeError as error:
        called = f"{function_name(fn)}({', '.join(args)})"
        raise NotCallableError(
            f"Operator {operator!r} ({use}) will call {called}, but its signature is {signature}: {error}.",
            "Change the function, or bind the other arguments with functools.partial.",
        ) from None


def check_operator_class(operator: str, given: Any, operator_class: type[Operator], *, keyed: bool) -> None:
    """Refuse operator classes that cannot be made or whose methods do not fit."""
    name = operator_class.__name__
    if operator_class.process in {Operator.process, KeyedOperator.process}:
        raise NotCallableError(
            f"Operator {operator!r} needs a process method, and the class {name!r} has none.",
            f"Define `def process(self, {'key, value, state' if keyed else 'value'})`, returning an iterable or None.",
        )
    if given is operator_class:
        _check_arguments(operator, "made without arguments in each task", given, ())
    check_function(
        operator,
        "process",
        operator_class.process,
        ("self", "key", "value", "state") if keyed else ("self", "value"),
        may_yield=True,
        may_await=not keyed,
    )
    for method in ("open", "tick", "close"):
        if inspect.iscoroutinefunction(getattr(operator_class, method)):
            raise NotCallableError(
                f"Operator {operator!r} needs a plain method {method}, and that of {name!r} is `async def`.",
                "Only process may be `async def`.",
            )
    every_s = given.tick_every_s
    if every_s is not None and (isinstance(every_s, bool) or not isinstance(every_s, int | float) or every_s <= 0):
        raise OptionError(
            f"tick_every_s of operator {operator!r} must be a positive number of seconds or None, found {every_s!r}.",
            f"Set it on the class {name!r}, for example `tick_every_s = 1.0`.",
        )
