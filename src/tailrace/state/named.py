"""What states that are declared by name have in common: where they lie, which key is at hand, and what has expired.

``declared`` has the kinds of states; the worker's step makes a ``NamedStates`` for each object that declares some, and
tells it the key at hand. Each part of a state is an entry of the operator's backend, under
``(NAMED, user's key, name, ...)``: what changes little writes little, and all parts of a user's key move together.
Touches that backend only.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from tailrace.durations import duration_ms
from tailrace.state.errors import StateDeclarationError, StateUseError
from tailrace.state.kinds import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.durations import Duration
    from tailrace.state.backend import StateBackend, ValueCodec
    from tailrace.state.keyed import Cell
    from tailrace.state.kinds import Kind


class _NamedMark:
    """Sets the backend's keys of named states apart from users' keys; there is one in a process."""

    def __reduce__(self) -> str:
        return "NAMED"


NAMED = _NamedMark()


class _Nothing:
    """Stands for no key and for no value."""


#: No key is at hand; a state is not bound to an operator yet.
NOTHING: Any = _Nothing()
#: Entries looked at per turn for what has expired.
_SWEPT_PER_TURN = 64
#: The rest between two rounds over all entries: a part of the shortest time to live, within these bounds.
_REST_PART, _REST_MS_MIN, _REST_MS_MAX = 4, 1000, 60_000


def user_key(key: Any) -> Any:
    """The user's key that a key of a backend belongs to."""
    return key[1] if type(key) is tuple and len(key) > 2 and key[0] is NAMED else key  # noqa: PLR2004


class NamedStates:
    """The declared states of one operator of one task, and the key at hand."""

    def __init__(self, user: Any, operator: str, codec: ValueCodec, now_ms: Callable[[], int]) -> None:
        self.operator = operator
        self.codec = codec
        self.key: Any = NOTHING
        self.backend: StateBackend = NOTHING
        self.cell: Cell = NOTHING
        self._now_ms = now_ms
        self._last_ms = 0
        self._rest_until_ms = 0
        self._declared: dict[str, KeptState] = {}
        for attribute, declared in declarations(type(user)).items():
            bound = vars(user)[attribute] = declared.bound(self)
            self._declared[bound.name] = bound
        lives = [state.ttl_ms for state in self._declared.values() if state.ttl_ms]
        self.expires = bool(lives)
        self._rest_ms = min(max(min(lives, default=0) // _REST_PART, _REST_MS_MIN), _REST_MS_MAX)

    def now(self) -> int:
        """Wall-clock time in milliseconds: what expires travels between machines. Never goes back here."""
        now_ms = self._now_ms()
        if now_ms < self._last_ms:
            return self._last_ms
        self._last_ms = now_ms
        return now_ms

    def begin(self, backend: StateBackend) -> None:
        """A turn of the task begins: it may have another backend since the last one."""
        self.backend = backend
        self.cell = backend.cell()
        if self.expires:
            self.sweep()

    def shown(self) -> dict[str, Any]:
        """What the key at hand has, by the names of its states."""
        return {name: state.shown() for name, state in self._declared.items() if state.exists()}

    def sweep(self) -> None:
        """Remove what has expired from among the next few entries, round and round."""
        now_ms = self.now()
        if now_ms < self._rest_until_ms:
            return
        entries = self.backend.walk(_SWEPT_PER_TURN)
        if not entries:
            self._rest_until_ms = now_ms + self._rest_ms
        for key, held in entries:
            if type(key) is tuple and len(key) > 2 and key[0] is NAMED:  # noqa: PLR2004
                declared = self._declared.get(key[2])
                if declared is not None and declared.ttl_ms:
                    declared.expire(key, held, now_ms)


class KeptState:
    """What all kinds of states have in common."""

    def __init__(self, ttl: Duration | None, name: str | None) -> None:
        self.ttl_ms = None if ttl is None else duration_ms(ttl, "ttl of a state")
        self.name = name or ""
        self._at: NamedStates = NOTHING

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def bound(self, at: NamedStates) -> Any:
        """Give a copy that works on an operator's states."""
        found = copy.copy(self)
        found._at = at  # noqa: SLF001 - a copy of ourselves
        found.bind(at.codec, f"State {self.name!r} of operator {at.operator!r}")
        return found

    def bind(self, codec: ValueCodec, what: str) -> None:
        """Get ready to hold values."""
        raise NotImplementedError

    def exists(self) -> bool:
        """Whether the key at hand has anything."""
        raise NotImplementedError

    def shown(self) -> Any:
        """What the key at hand has, as plain Python."""
        raise NotImplementedError

    def expire(self, key: Any, held: Any, now_ms: int) -> None:
        """Remove an entry of the backend that has expired."""
        raise NotImplementedError

    def _head(self) -> tuple[Any, Any, str]:
        """The backend's key of the state of the key at hand."""
        at = self._at
        if at is NOTHING or at.key is NOTHING:
            raise StateUseError(
                f"State {self.name!r} was used where no key is at hand.",
                "States are those of the key that process() was called with: use them there only.",
            )
        return (NAMED, at.key, self.name)

    def _parts(self, kind: Kind, value: Any) -> tuple[Any, int, int]:
        """What is held of a value: itself or bytes that stand for it, when it expires or 0, whether it is bytes."""
        expires_ms = 0 if self.ttl_ms is None else self._at.now() + self.ttl_ms
        if kind.holds_plain and type(value) in PLAIN:
            return kind.check(value), expires_ms, 0
        return kind.encoded(value), expires_ms, 1

    def _held(self, kind: Kind, value: Any) -> Any:
        """What is held of a value where that is all there is: a plain one without an end as it is. Never None."""
        if kind.plain is type(value) and self.ttl_ms is None:
            return value
        parts = self._parts(kind, value)
        return parts if parts[1] or parts[2] else parts[0]

    def _is_over(self, held: Any) -> bool:
        return type(held) is tuple and 0 < held[1] <= self._at.now()


def opened(kind: Kind, held: Any) -> Any:
    """The value that is held."""
    if type(held) is not tuple:
        return held
    return kind.decode(held[0]) if held[2] else held[0]


def declarations(owner: type) -> dict[str, KeptState]:
    """The states that a class declares, by attribute; those of derived classes go before."""
    found: dict[str, KeptState] = {}
    for each in reversed(owner.__mro__):
        for attribute, value in vars(each).items():
            if isinstance(value, KeptState):
                found[attribute] = value
            else:
                found.pop(attribute, None)
    return found


def check_declarations(owner: type, taken: frozenset[str] = frozenset()) -> None:
    """Refuse states of one name, and names that mean something else already."""
    names: dict[str, str] = {}
    for attribute, declared in declarations(owner).items():
        if attribute in taken:
            raise StateDeclarationError(
                f"{owner.__name__}.{attribute} is a state, and {attribute!r} has another meaning there.",
                "Give the attribute another name.",
            )
        if declared.name in names:
            raise StateDeclarationError(
                f"{owner.__name__} has two states that are kept under {declared.name!r}: "
                f"{names[declared.name]} and {attribute}.",
                "Declare each by itself, or give one another name=.",
            )
        names[declared.name] = attribute
