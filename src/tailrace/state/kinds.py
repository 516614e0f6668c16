"""How values of a declared type are held: plain ones as they are, typed ones as msgpack, all others as pickle.

What is held cannot be changed in place, so a backend never encodes it again. ``named`` has a ``Kind`` for each state
and map key; a value of another type than declared is refused here, before it is held.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, get_origin

import msgspec

from tailrace.state.errors import StateTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.state.backend import ValueCodec

#: Held as they are.
PLAIN: frozenset[type] = frozenset({int, float, str, bytes, bool})
#: Classes whose objects come back whole if they are exactly of the class, which is looked at for the outermost only.
_CLASSES = (msgspec.inspect.StructType, msgspec.inspect.DataclassType)
#: Parts of types of which msgpack does not say what comes back.
_VAGUE = (
    msgspec.inspect.AnyType, msgspec.inspect.CustomType, msgspec.inspect.RawType, msgspec.inspect.ExtType,
    msgspec.inspect.TypedDictType, msgspec.inspect.NamedTupleType, *_CLASSES,
)  # fmt: skip
_SHOWN_CHARS_MAX = 100
_encode = msgspec.msgpack.Encoder().encode


class Kind:
    """One declared type; None is any."""

    def __init__(self, of: Any, codec: ValueCodec, what: str) -> None:
        self._of = None if of is Any or of is object else of
        self._what = what
        self._codec = codec
        #: The one plain type that is let through without a further look.
        self.plain: Any = of if of in PLAIN else None
        self.holds_plain = self._of is None or self.plain is not None
        self._exact = isinstance(of, type) and (issubclass(of, msgspec.Struct) or dataclasses.is_dataclass(of))
        self._typed = self._of is not None and self.plain is None and is_typed(of)
        self.decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(of).decode if self._typed else codec.decode

    def check(self, value: Any) -> Any:
        """Give a plain value, or a map's key, as it is to be held; refuses what is not of the type."""
        if self._of is None or type(value) is self._of:
            return value
        if self._of is float and type(value) is int:
            return float(value)
        if self.plain is not None or not self._is_one(value):
            raise self._refusal(value)
        return value

    def encoded(self, value: Any) -> bytes:
        """Give any other value as bytes."""
        if self._of is None:
            return self._codec.encode(value)
        if self.plain is not None or not self._is_one(value):
            raise self._refusal(value)
        if not self._typed:
            return self._codec.encode(value)
        try:
            data = _encode(value)
            self.decode(data)  # what is inside is looked at when it is decoded: better now than when it is read
        except Exception as error:
            raise self._refusal(value, f": {error}") from error
        return data

    def _is_one(self, value: Any) -> bool:
        if self._exact:
            return type(value) is self._of  # of a derived class, fields would be lost
        if self._typed:
            return True  # the decoder decides
        base: Any = get_origin(self._of) or self._of
        try:
            return isinstance(value, base)
        except TypeError:  # a hint that says nothing of classes, such as a Union of generic ones
            return True

    def _refusal(self, value: Any, why: str = "") -> StateTypeError:
        expected = self._of.__name__ if type(self._of) is type else str(self._of)
        shown = repr(value)
        shown = shown if len(shown) <= _SHOWN_CHARS_MAX else f"{shown[:_SHOWN_CHARS_MAX]}..."
        return StateTypeError(
            f"{self._what} holds values of type {expected}; found {shown} of type {type(value).__name__}{why}.",
            "Convert the value, or declare the state with another type; without one it takes whatever pickle carries.",
        )


def is_typed(of: Any) -> bool:
    """Whether msgpack gives back just what it was given of a type."""
    try:
        found = msgspec.inspect.type_info(of)
    except Exception:  # noqa: BLE001 - whatever it does not know is left to pickle
        return False
    return not _is_vague(found.fields if isinstance(found, _CLASSES) else found)


def _is_vague(part: Any) -> bool:
    if isinstance(part, _VAGUE):
        return True
    if isinstance(part, list | tuple):
        return any(_is_vague(each) for each in part)
    if isinstance(part, msgspec.inspect.Type | msgspec.inspect.Field):
        return any(_is_vague(getattr(part, name)) for name in part.__struct_fields__)
    return False
