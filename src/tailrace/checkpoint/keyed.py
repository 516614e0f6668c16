"""State by key as bytes, and how several tellings of it are put together or taken apart.

Workers write and read it with their snapshots; the driver does where a savepoint is dealt to other tasks. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.state.backend import Delta
from tailrace.state.snapshot import KeyedPart
from tailrace.transport import codec

if TYPE_CHECKING:
    from collections.abc import Callable


def keyed_part(delta: Delta, *, groups: list[int] | None = None, since: int | None = None) -> KeyedPart:
    """Encode what some keys are."""
    return KeyedPart(
        codec.dumps(delta.values) if delta.values else b"",
        codec.dumps(delta.encoded) if delta.encoded else b"",
        codec.dumps(delta.deleted) if delta.deleted else b"",
        groups,
        since,
    )


def delta_of(part: KeyedPart) -> Delta:
    """Decode what some keys are; values that were encoded one by one stay so until they are taken in."""
    return Delta(
        codec.loads(part.values) if part.values else {},
        codec.loads(part.encoded) if part.encoded else {},
        codec.loads(part.deleted) if part.deleted else [],
    )


def take_over(held: Delta, later: Delta) -> None:
    """Let what was told later of some keys take the place of what is held of them."""
    for key in (*later.values, *later.encoded, *later.deleted):
        held.values.pop(key, None)
        held.encoded.pop(key, None)
    held.values.update(later.values)
    held.encoded.update(later.encoded)


def followed_by(held: Delta, later: Delta) -> Delta:
    """One delta that does what two do, one after the other; the first may be changed."""
    take_over(held, later)
    gone = dict.fromkeys(held.deleted)
    for key in (*later.values, *later.encoded):
        gone.pop(key, None)
    return held._replace(deleted=[*(gone | dict.fromkeys(later.deleted))])


def dealt(whole: Delta, tasks: int, task_of: Callable[[Any], int]) -> list[Delta]:
    """Deal the keys to tasks."""
    found = [Delta({}, {}, []) for _ in range(tasks)]
    for key, value in whole.values.items():
        found[task_of(key)].values[key] = value
    for key, data in whole.encoded.items():
        found[task_of(key)].encoded[key] = data
    return found


def changed(whole: Delta, fn: Callable[[Any, Any], Any]) -> Delta:
    """Make another state of each key's; a key for which that is None has none any more."""
    states = whole.values | {key: codec.loads(data) for key, data in whole.encoded.items()}
    made = {key: fn(key, state) for key, state in states.items()}
    return Delta({}, {key: codec.dumps(state) for key, state in made.items() if state is not None}, [])
