"""What keyed operators ask of whatever keeps their state: one backend per keyed operator of a task.

Keyed steps read and write through it, snapshots iterate over it, checkpoints cut it. A *cut* is a numbered moment
between two pieces of the task's work; what was changed between two cuts is their delta. Nothing here touches anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tailrace.state.keyed import Cell


class ValueCodec(NamedTuple):
    """How a user's value becomes bytes and a value again; passed in, because this room knows no transport."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


class Delta(NamedTuple):
    """What some keys are at a cut: values, those that may be mutable encoded one by one, and the keys that are gone."""

    values: dict[Any, Any]
    encoded: dict[Any, bytes]
    deleted: list[Any]


class StateBackend(Protocol):
    """The states of one keyed operator of one task, by key. No two keys may share an object that can change."""

    @property
    def table(self) -> dict[Any, Any]:
        """The dict that built-in operators update in place.

        The state of a key is there, if the key has any, from when the key was touched until something else is called:
        in memory it always is, a backend on disk may have to fetch it first and to write it back afterwards.
        """
        ...

    @property
    def tracking(self) -> bool:
        """Whether changes are noted."""
        ...

    def __len__(self) -> int: ...

    def get(self, key: Any) -> Any:
        """Return the state of a key, None if there is none. It may be changed in place, so it counts as touched."""
        ...

    def put(self, key: Any, value: Any) -> None:
        """Replace the state of a key."""
        ...

    def delete(self, key: Any) -> None:
        """Forget a key."""
        ...

    def items(self, groups: Collection[int] | None = None) -> Iterator[tuple[Any, Any]]:
        """Give the states of the keys of some key groups, or of all; nothing may be changed meanwhile."""
        ...

    def walk(self, count: int) -> list[tuple[Any, Any]]:
        """Give the next few states of a round over all there are, so many at most; nothing where a round ends.

        What is touched during a round may be left out of it, or come twice. Values may not be changed in place.
        """
        ...

    def touch(self, keys: Iterable[Any]) -> None:
        """Note that the states of these keys are about to change; stops at a key that cannot be looked up."""
        ...

    def touching(self, key_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Give a function that tells a value's key as ``key_of`` does, and touches it."""
        ...

    def cell(self) -> Cell:
        """Make what user code sees the key at hand through; good until the next cut."""
        ...

    def close(self) -> None:
        """Let go of what is kept outside of memory; nothing is asked of it any more."""
        ...

    def track(self, epoch: int) -> None:
        """Note changes from now on: what is here is the state as of the cut ``epoch``, the first that is known."""
        ...

    def cut(self, epoch: int) -> Collection[Any]:
        """Make a cut, numbered higher than all before it; tells the keys that were touched since the last one."""
        ...

    def changed_since(self, epoch: int, until: int | None = None) -> list[Any]:
        """List the keys that were touched since a cut: up to another cut, or up to now."""
        ...

    def delta(self, since: int | None, until: int, keys: Iterable[Any] | None = None) -> Delta:
        """Tell what has changed between two cuts; since None: the whole state as of a cut.

        ``keys`` are some of those that ``changed_since`` lists, so that a large delta can be drawn bit by bit, between
        pieces of the task's work and while the state goes on changing.
        """
        ...

    def keys_at(self, epoch: int) -> list[Any]:
        """List the keys that may have a state as of a cut: what a whole delta is drawn from."""
        ...

    def apply(self, delta: Delta) -> None:
        """Take in what some keys are, of this state as of another cut or of another task's."""
        ...

    def rollback(self, epoch: int) -> None:
        """Go back to the state as of a cut; costs as much as the keys that were touched since."""
        ...

    def release(self, epoch: int) -> None:
        """Forget what it takes to go back before a cut, and the deltas up to it."""
        ...


#: Makes the backend of an operator, named as the drawing names it.
BackendFactory = Callable[[str], StateBackend]
