"""Keys and values of states as text and as JSON, for people and for programs that do not have the user's classes.

Called by ``tailrace state`` and ``format("tailrace-state")``. Pure.
"""

from __future__ import annotations

import json
from typing import Any

_PLAIN = (str, int, float, bool, type(None))


def as_text(value: Any) -> str:
    """A string as it is, plain data as JSON, anything else as Python shows it."""
    if isinstance(value, str):
        return value
    return json.dumps(as_json(value), ensure_ascii=False) if is_plain(value) else _repr(value)


def as_json(value: Any) -> Any:
    """Plain data with tuples as lists; anything else as Python shows it."""
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return value if type(value) in _PLAIN else _repr(value)


def is_plain(value: Any) -> bool:
    """Whether JSON can hold it without a loss but that of tuples."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return type(value) in _PLAIN


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a user's own may raise anything
        return f"<{type(value).__name__} whose repr() fails: {type(error).__name__}>"
