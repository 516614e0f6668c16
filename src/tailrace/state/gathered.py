"""Declared states put together again from the entries of a backend, for people who look into a checkpoint.

``checkpoint.reader`` uses it. The declarations are not at hand there: what an entry belongs to is told by its shape,
and bytes are decoded as far as that can be done without knowing their type. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.state.named import NAMED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: How many parts the backend's keys have: of a state, of a value of a list or an entry of a map, of a map's number.
_HEAD, _PART, _NUMBER = 3, 4, 5
_PICKLE = b"\x80"


def gathered(pairs: Iterable[tuple[Any, Any]], decode: Callable[[bytes], Any]) -> Iterator[tuple[Any, Any]]:
    """Give plain pairs as they are, then for each key that has declared states a dict of these by name."""
    parts: defaultdict[Any, defaultdict[str, dict[tuple[Any, ...], Any]]]
    parts = defaultdict(lambda: defaultdict(dict))
    for key, held in pairs:
        if type(key) is tuple and len(key) >= _HEAD and key[0] is NAMED:
            parts[key[1]][key[2]][key[_HEAD:]] = held
        else:
            yield key, held
    for key, states in parts.items():
        yield key, {name: _state(entries, decode) for name, entries in states.items()}


def _state(entries: dict[tuple[Any, ...], Any], decode: Callable[[bytes], Any]) -> Any:
    lengths = {len(rest) + _HEAD for rest in entries}
    if _NUMBER in lengths:  # a map: an entry has its number in front
        return {rest[0]: _opened(held[1:], decode) for rest, held in entries.items() if len(rest) + _HEAD == _PART}
    if _PART in lengths:
        places = sorted(rest for rest in entries if rest)
        return [_opened(entries[place], decode) for place in places]
    return _opened(entries[()], decode)


def _opened(held: Any, decode: Callable[[bytes], Any]) -> Any:
    """What is held of a value: itself, or with when it expires and whether it is bytes that stand for it."""
    if type(held) is not tuple:
        return held
    value, _, is_bytes = held
    if not is_bytes:
        return value
    return decode(value) if value.startswith(_PICKLE) else msgspec.msgpack.decode(value)
