"""Keyed state of one task: a plain dict by key, and the cell through which user code sees the key at hand.

The built-in keyed operators work on the dict itself, which is the fastest thing Python has; ``process`` gets a cell.
"""

from __future__ import annotations

from typing import Any

KeyedState = dict[Any, Any]


class Cell:
    """The state of one key, as ``process(key, value, state)`` sees it; re-pointed for each value, so do not keep it."""

    __slots__ = ("_key", "_states")

    def __init__(self, states: KeyedState) -> None:
        self._states = states
        self._key: Any = None

    def at(self, key: Any) -> Cell:
        """Point at a key."""
        self._key = key
        return self

    def get(self) -> Any:
        """Return the state of the key at hand, None if there is none."""
        return self._states.get(self._key)

    def set(self, value: Any) -> None:
        """Replace the state of the key at hand."""
        self._states[self._key] = value

    def clear(self) -> None:
        """Forget the key at hand."""
        self._states.pop(self._key, None)

    @property
    def value(self) -> Any:
        """The state of the key at hand; assign to replace it."""
        return self.get()

    @value.setter
    def value(self, value: Any) -> None:
        self.set(value)
