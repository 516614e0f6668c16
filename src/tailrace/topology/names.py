"""Names of operators: as given, or taken from the user's function. Pure; ``graph`` calls it for each operator."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from .errors import DuplicateNameError, OperatorNameError
from .operators import Aggregation, BatchFunction

if TYPE_CHECKING:
    from collections.abc import Container

NAME_CHARS_MAX = 200


def check_name(name: object, what: str) -> None:
    """Refuse names that could not be shown in a log line, a metric or a path."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > NAME_CHARS_MAX:
        shown = repr(name)
        raise OperatorNameError(
            f"The name of {_article(what)} must be 1 to {NAME_CHARS_MAX} printable characters, found {shown[:80]}.",
            f"Give a name such as {what}-1, or leave it out." if what == "operator" else "Give a short text as name.",
        )


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def derived_name(verb: str, fn: Any) -> str:
    """Name an operator after its function, class or connector, or after its verb where that says nothing."""
    if verb in {"source", "sink"}:
        return str(getattr(fn, "label", "")) or _snake(type(fn).__name__)
    if isinstance(fn, Aggregation):
        fn = fn.add
    if isinstance(fn, BatchFunction):
        fn = fn.fn
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = getattr(fn, "__name__", None)
    if name is None and callable(getattr(fn, "process", fn)):
        name = type(fn).__name__
    return name if isinstance(name, str) and name.isidentifier() and verb != "branch" else verb


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def unique_name(name: str, taken: Container[str], *, renamable: bool) -> str:
    """Return the name, with a counted suffix if it is taken and was not the user's own choice."""
    if name not in taken:
        return name
    if not renamable:
        raise DuplicateNameError(
            f"Operator names must differ, and the name {name!r} is already taken.",
            f"Give one of the two another name=, for example {name + '-2'!r}.",
        )
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"
