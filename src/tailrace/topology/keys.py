"""A field's name as a key function: ``key_by("user")``, for dicts, Rows, structs, dataclasses and plain attributes.

``streams`` makes one where a user gives a string; it travels with the topology and is called like any key function.
``keys_of`` reads the keys of many values at once, at an itemgetter's price where all of them are dicts.
"""

from __future__ import annotations

from operator import itemgetter
from types import BuiltinMethodType, MethodType
from typing import TYPE_CHECKING, Any

from .errors import MissingFieldError

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN_FIELDS_MAX = 12


class Field:
    """Tells the value of a field."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: As functions have it, so that drawings and errors name the field.
        self.__name__ = name
        self.of_dict = itemgetter(name)

    def __call__(self, value: Any) -> Any:
        """Read the field: an item where the value has items by name, else an attribute that is no method."""
        try:
            return value[self.name]
        except TypeError:  # no items, or items by number only
            found = getattr(value, self.name, None)
            if isinstance(found, BuiltinMethodType | MethodType) or (found is None and not hasattr(value, self.name)):
                raise self._missing(value) from None
            return found
        except (KeyError, ValueError):  # a pyspark Row raises a ValueError
            raise self._missing(value) from None

    def __repr__(self) -> str:
        return f"Field({self.name!r})"

    def _missing(self, value: Any) -> MissingFieldError:
        return MissingFieldError(f"a field {self.name!r} was expected, found {_described(value)}")


def keys_of(key: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    """The key of each value."""
    if isinstance(key, Field) and values and type(values[0]) is dict:
        try:
            return list(map(key.of_dict, values))
        except Exception:  # noqa: BLE001 - not all are dicts, or one lacks it: found again below, and named
            return list(map(key, values))
    return list(map(key, values))


def _described(value: Any) -> str:
    names = list(value) if isinstance(value, dict) else getattr(value, "__struct_fields__", None)
    names = names or getattr(value, "__fields__", None) or list(getattr(value, "__dict__", ()))
    kind = type(value).__name__
    if not names:
        return f"a {kind}, which has no fields"
    more = ", ..." if len(names) > _SHOWN_FIELDS_MAX else ""
    return f"a {kind} with {', '.join(map(repr, list(names)[:_SHOWN_FIELDS_MAX]))}{more}"
