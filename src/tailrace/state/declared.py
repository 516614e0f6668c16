"""The kinds of states that users declare: a value, a list or a map per key, as attributes of a class.

    class Visits(tr.KeyedOperator):
        last = tr.ValueState(float, ttl="1 hour")

A declaration says name, type and time to live; the worker puts a copy that knows the key at hand into each object.
``named`` has what they share. What they give are copies: a state changes by their methods only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from tailrace.state.kinds import Kind
from tailrace.state.named import NOTHING, KeptState, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.durations import Duration
    from tailrace.state.backend import ValueCodec

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

#: Ends the backend's key of a number of a map, which tells it from the key of an entry.
_BY_NUMBER = 0


class _OfOneKind(KeptState):
    """A state whose values are all of one declared type."""

    def __init__(self, kind: Any, ttl: Duration | None, name: str | None) -> None:
        super().__init__(ttl, name)
        self._of = kind
        self._kind: Kind = NOTHING

    def bind(self, codec: ValueCodec, what: str) -> None:
        """Get ready to hold values."""
        self._kind = Kind(self._of, codec, what)


class ValueState(_OfOneKind, Generic[T]):
    """One value per key.

    ``ttl`` counts from the last update. What ``get`` gives is a copy: a change of it is kept by ``update`` only.
    """

    @overload
    def __init__(
        self: ValueState[Any], kind: None = None, *, ttl: Duration | None = None, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(self, kind: type[T], *, ttl: Duration | None = None, name: str | None = None) -> None: ...
    def __init__(self, kind: Any = None, *, ttl: Duration | None = None, name: str | None = None) -> None:
        super().__init__(kind, ttl, name)

    def get(self) -> T | None:
        """Return the value of the key at hand, None if there is none."""
        head = self._head()
        held = self._at.backend.get(head)
        if type(held) is not tuple:
            return held  # type: ignore[no-any-return]
        if self._is_over(held):
            self._at.backend.delete(head)
            return None
        return opened(self._kind, held)  # type: ignore[no-any-return]

    def exists(self) -> bool:
        """Whether the key at hand has a value."""
        held = self._at.backend.get(self._head())
        return held is not None and not self._is_over(held)

    def update(self, value: T) -> None:
        """Replace the value of the key at hand."""
        head = self._head()
        self._at.backend.put(head, self._held(self._kind, value))

    def clear(self) -> None:
        """Forget the value of the key at hand."""
        self._at.backend.delete(self._head())

    def shown(self) -> Any:
        """What the key at hand has, as plain Python."""
        return self.get()

    def expire(self, key: Any, held: Any, now_ms: int) -> None:
        """Remove the value of a key, if that has expired."""
        del now_ms
        if self._is_over(held):
            self._at.backend.delete(key)


class ListState(_OfOneKind, Generic[T]):
    """A list per key, to which appending is cheap: each value is an entry of its own, with its own ``ttl``."""

    @overload
    def __init__(
        self: ListState[Any], kind: None = None, *, ttl: Duration | None = None, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(self, kind: type[T], *, ttl: Duration | None = None, name: str | None = None) -> None: ...
    def __init__(self, kind: Any = None, *, ttl: Duration | None = None, name: str | None = None) -> None:
        super().__init__(kind, ttl, name)

    def get(self) -> list[T]:
        """Return a new list of the values of the key at hand, oldest first."""
        held = self._all(self._head())
        return [opened(self._kind, each) for each in held if not self._is_over(each)]

    def exists(self) -> bool:
        """Whether the key at hand has any value."""
        return any(not self._is_over(each) for each in self._all(self._head()))

    def append(self, value: T) -> None:
        """Add a value to those of the key at hand."""
        self.extend((value,))

    def extend(self, values: Iterable[T]) -> None:
        """Add several values to those of the key at hand, all or none of them."""
        held = [self._held(self._kind, value) for value in values]
        head = self._head()
        if held:
            first, until = self._at.backend.get(head) or (0, 0)
            self._write(head, first, until, held)

    def put(self, values: Iterable[T]) -> None:
        """Replace the values of the key at hand."""
        held = [self._held(self._kind, value) for value in values]
        self.clear()
        if held:
            self._write(self._head(), 0, 0, held)

    def clear(self) -> None:
        """Forget the values of the key at hand."""
        head, backend = self._head(), self._at.backend
        for place in range(*(backend.get(head) or (0, 0))):
            backend.delete((*head, place))
        backend.delete(head)

    def _write(self, head: tuple[Any, ...], first: int, until: int, held: list[Any]) -> None:
        backend = self._at.backend
        for place, each in enumerate(held, until):
            backend.put((*head, place), each)
        backend.put(head, (first, until + len(held)))

    def _all(self, head: tuple[Any, ...]) -> Iterator[Any]:
        backend = self._at.backend
        for place in range(*(backend.get(head) or (0, 0))):
            yield backend.get((*head, place))

    def shown(self) -> Any:
        """What the key at hand has, as plain Python."""
        return self.get()

    def expire(self, key: Any, held: Any, now_ms: int) -> None:
        """Remove the oldest values of a list, as far as they have expired; ``key`` is that of its head."""
        del now_ms
        if len(key) != 3:  # noqa: PLR2004 - a value: its head looks after it
            return
        first, until = held
        backend, at = self._at.backend, first
        while at < until and self._is_over(backend.get((*key, at))):
            backend.delete((*key, at))
            at += 1
        if at == until:
            backend.delete(key)
        elif at > first:
            backend.put(key, (at, until))


class MapState(KeptState, Generic[K, V]):
    """A map per key, of which a change writes the changed entry only, each with its own ``ttl``.

    Entries are numbered without gaps, and their keys are filed by number: so they can be listed. The last one takes the
    number of one that is removed; the order of a map is that of its numbers.
    """

    @overload
    def __init__(
        self: MapState[Any, Any],
        key: None = None,
        value: None = None,
        *,
        ttl: Duration | None = None,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self, key: type[K], value: type[V], *, ttl: Duration | None = None, name: str | None = None
    ) -> None: ...
    def __init__(
        self, key: Any = None, value: Any = None, *, ttl: Duration | None = None, name: str | None = None
    ) -> None:
        super().__init__(ttl, name)
        self._of = (key, value)
        self._key: Kind = NOTHING
        self._kind: Kind = NOTHING

    def bind(self, codec: ValueCodec, what: str) -> None:
        """Get ready to hold entries."""
        self._key, self._kind = Kind(self._of[0], codec, f"{what}, in its keys,"), Kind(self._of[1], codec, what)

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value under a key of the map, else the default."""
        entry = self._at.backend.get((*self._head(), key))
        return default if entry is None or self._is_over(entry[1:]) else opened(self._kind, entry[1:])

    def contains(self, key: K) -> bool:
        """Whether the map has a key."""
        entry = self._at.backend.get((*self._head(), key))
        return entry is not None and not self._is_over(entry[1:])

    def update(self, key: K, value: V) -> None:
        """Replace the value under a key of the map."""
        backend, head = self._at.backend, self._head()
        parts = self._parts(self._kind, value)
        entry = backend.get((*head, key))
        if entry is not None:
            backend.put((*head, key), (entry[0], *parts))
            return
        key = self._key.check(key)
        number = backend.get(head) or 0
        backend.put((*head, key), (number, *parts))
        backend.put((*head, number, _BY_NUMBER), key)
        backend.put(head, number + 1)

    def remove(self, key: K) -> None:
        """Forget a key of the map, if it has it."""
        self._remove(self._head(), key)

    def exists(self) -> bool:
        """Whether the map has any key."""
        return any(True for _ in self._entries())

    def keys(self) -> list[K]:
        """List the keys of the map."""
        return [key for key, _ in self._entries()]

    def values(self) -> list[V]:
        """List the values of the map."""
        return [opened(self._kind, entry[1:]) for _, entry in self._entries()]

    def items(self) -> list[tuple[K, V]]:
        """List the keys of the map with their values."""
        return [(key, opened(self._kind, entry[1:])) for key, entry in self._entries()]

    def clear(self) -> None:
        """Forget the map of the key at hand."""
        head, backend = self._head(), self._at.backend
        for number in range(backend.get(head) or 0):
            backend.delete((*head, backend.get((*head, number, _BY_NUMBER))))
            backend.delete((*head, number, _BY_NUMBER))
        backend.delete(head)

    def _entries(self) -> Iterator[tuple[Any, Any]]:
        head, backend = self._head(), self._at.backend
        for number in range(backend.get(head) or 0):
            key = backend.get((*head, number, _BY_NUMBER))
            entry = backend.get((*head, key))
            if not self._is_over(entry[1:]):
                yield key, entry

    def _remove(self, head: tuple[Any, ...], key: Any) -> None:
        backend = self._at.backend
        entry = backend.get((*head, key))
        if entry is None:
            return
        last = backend.get(head) - 1
        if entry[0] != last:
            moved = backend.get((*head, last, _BY_NUMBER))
            backend.put((*head, entry[0], _BY_NUMBER), moved)
            backend.put((*head, moved), (entry[0], *backend.get((*head, moved))[1:]))
        backend.delete((*head, last, _BY_NUMBER))
        backend.delete((*head, key))
        if last:
            backend.put(head, last)
        else:
            backend.delete(head)

    def shown(self) -> Any:
        """What the key at hand has, as plain Python."""
        return dict(self.items())

    def expire(self, key: Any, held: Any, now_ms: int) -> None:
        """Remove an entry of a map, if that has expired."""
        del now_ms
        if len(key) == 4 and self._is_over(held[1:]):  # noqa: PLR2004 - the key of an entry
            self._remove(key[:3], key[3])


class States:
    """Base of the states of a function: ``process(fn, state=Visits)`` calls ``fn(key, value, state)`` with a Visits.

    Beside those declared it has the one without a name that every function has: ``get``, ``set``, ``clear``, ``value``.
    """

    _at: Any = NOTHING

    def get(self) -> Any:
        """Return the state without a name of the key at hand, None if there is none."""
        return self._at.cell.at(self._at.key).get()

    def set(self, value: Any) -> None:
        """Replace the state without a name of the key at hand."""
        self._at.cell.at(self._at.key).set(value)

    def clear(self) -> None:
        """Forget the state without a name of the key at hand."""
        self._at.cell.at(self._at.key).clear()

    @property
    def value(self) -> Any:
        """The state without a name of the key at hand; assign to replace it."""
        return self.get()

    @value.setter
    def value(self, value: Any) -> None:
        self.set(value)


#: What attributes of a ``States`` class may not be called.
TAKEN = frozenset({"get", "set", "clear", "value"})
