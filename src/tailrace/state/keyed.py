"""The state of the key at hand, as ``process(key, value, state)`` sees it: a cell on the operator's backend.

``KeyedProcess`` asks the backend for one. The built-in keyed operators do without: they work on the backend's table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.state.backend import StateBackend


class Cell:
    """The state of one key, as ``process(key, value, state)`` sees it; re-pointed for each value, so do not keep it."""

    __slots__ = ("_backend", "_key")

    def __init__(self, backend: StateBackend) -> None:
        self._backend = backend
        self._key: Any = None

    def at(self, key: Any) -> Cell:
        """Point at a key."""
        self._key = key
        return self

    def get(self) -> Any:
        """Return the state of the key at hand, None if there is none."""
        return self._backend.get(self._key)

    def set(self, value: Any) -> None:
        """Replace the state of the key at hand."""
        self._backend.put(self._key, value)

    def clear(self) -> None:
        """Forget the key at hand."""
        self._backend.delete(self._key)

    @property
    def value(self) -> Any:
        """The state of the key at hand; assign to replace it."""
        return self.get()

    @value.setter
    def value(self, value: Any) -> None:
        self.set(value)
