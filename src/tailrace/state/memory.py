"""State in memory: a dict per operator, and, while cuts are made, what keys were before they were touched.

While nothing is tracked, which is so without checkpoints, everything works on the dict itself. While changes are
tracked, a key that is touched for the first time since a cut has its *before-image* kept: what it was at the cut. A
value that may be mutable is encoded for that before anyone gets hold of it; atoms are kept as they are. Before-images
are the way back to a cut, and the values of a delta that is drawn while the state goes on changing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.state.backend import Delta, ValueCodec
from tailrace.state.errors import CutError
from tailrace.state.keyed import Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

_ATOMS = frozenset({int, float, str, bytes, bool, type(None)})


class Absent:
    """Stands for the state of a key that has none."""


ABSENT = Absent()


class _Encoded:
    """A value as bytes; an object of its own, because bytes may be a value too."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def is_atom(value: Any) -> bool:
    """Whether nobody can change a value in place: a plain one, or a tuple of plain ones."""
    kind = type(value)
    return kind in _ATOMS or (kind is tuple and _ATOMS.issuperset(map(type, value)))


class _Stretch:
    """The time from one cut to the next: the before-images, as of the first, of the keys that were touched in it."""

    __slots__ = ("before", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.before: dict[Any, Any] = {}


class _TableCell(Cell):
    """A cell on the dict itself, where nothing is tracked."""

    __slots__ = ("_table",)

    def __init__(self, backend: MemoryBackend) -> None:
        super().__init__(backend)
        self._table = backend.table

    def get(self) -> Any:
        """Return the state of the key at hand, None if there is none."""
        return self._table.get(self._key)

    def set(self, value: Any) -> None:
        """Replace the state of the key at hand."""
        self._table[self._key] = value

    def clear(self) -> None:
        """Forget the key at hand."""
        self._table.pop(self._key, None)


class MemoryBackend:
    """The states of one operator of one task in a dict."""

    def __init__(self, codec: ValueCodec, group_of: Callable[[Any], int]) -> None:
        self.table: dict[Any, Any] = {}
        self.tracking = False
        self._encode = codec.encode
        self._decode = codec.decode
        self._group_of = group_of
        #: Oldest first; the last one is open, and its before-images are at hand as well.
        self._stretches: list[_Stretch] = []
        self._before: dict[Any, Any] = {}
        #: Keys that a round of ``walk`` has yet to come to.
        self._ahead: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.table)

    # -- what keyed steps call -----------------------------------------------------------------------------------

    def get(self, key: Any) -> Any:
        """Return the state of a key, None if there is none. It may be changed in place, so it counts as touched."""
        value = self.table.get(key)
        if self.tracking and key not in self._before and not is_atom(value):
            self._note(key)
        return value

    def put(self, key: Any, value: Any) -> None:
        """Replace the state of a key."""
        if self.tracking and key not in self._before:
            self._note(key)
        self.table[key] = value

    def delete(self, key: Any) -> None:
        """Forget a key."""
        if self.tracking and key not in self._before:
            self._note(key)
        self.table.pop(key, None)

    def items(self, groups: Collection[int] | None = None) -> Iterator[tuple[Any, Any]]:
        """Give the states of the keys of some key groups, or of all; nothing may be changed meanwhile."""
        return self._in_table(groups)

    def _in_table(self, groups: Collection[int] | None) -> Iterator[tuple[Any, Any]]:
        if groups is None:
            return iter(self.table.items())
        group_of = self._group_of
        return iter([pair for pair in self.table.items() if group_of(pair[0]) in groups])

    def walk(self, count: int) -> list[tuple[Any, Any]]:
        """Give the next few states of a round over all there are, so many at most; nothing where a round ends."""
        if self._ahead is None:
            self._ahead = list(self.table)
        table, ahead = self.table, self._ahead
        found: list[tuple[Any, Any]] = []
        while ahead and len(found) < count:
            key = ahead.pop()
            if key in table:
                found.append((key, table[key]))
        if not found:
            self._ahead = None
        return found

    def touch(self, keys: Iterable[Any]) -> None:
        """Note that the states of these keys are about to change; stops at a key that cannot be looked up."""
        if not self.tracking:
            return
        before = self._before
        for key in keys:
            try:
                known = key in before
            except Exception:  # noqa: BLE001 - whoever looks it up next finds the same, and says which value it was
                return
            if not known:
                self._note(key)

    def touching(self, key_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Give a function that tells a value's key as ``key_of`` does, and touches it."""
        if not self.tracking:
            return key_of
        before = self._before

        def touched(value: Any) -> Any:
            key = key_of(value)
            if key not in before:
                self._note(key)
            return key

        return touched

    def cell(self) -> Cell:
        """Make what user code sees the key at hand through; good until the next cut."""
        return Cell(self) if self.tracking else _TableCell(self)

    def close(self) -> None:
        """Let go of what is kept elsewhere: nothing."""

    # -- cuts ----------------------------------------------------------------------------------------------------

    def track(self, epoch: int) -> None:
        """Note changes from now on: what is here is the state as of the cut ``epoch``, the first that is known."""
        self.tracking = True
        self._stretches = []
        self._begin(epoch)

    def cut(self, epoch: int) -> Collection[Any]:
        """Make a cut, numbered higher than all before it; tells the keys that were touched since the last one."""
        if not self.tracking:
            raise CutError(f"Cut {epoch} was asked for, and changes are not tracked.", "Call track() first.")
        last = self._stretches[-1]
        if epoch <= last.since:
            raise CutError(f"Cuts are numbered upwards: {epoch} comes after {last.since}.")
        self._begin(epoch)
        return last.before.keys()

    def changed_since(self, epoch: int, until: int | None = None) -> list[Any]:
        """List the keys that were touched since a cut: up to another cut, or up to now."""
        last = len(self._stretches) if until is None else self._place(until)
        changed: dict[Any, None] = {}
        for stretch in self._stretches[self._place(epoch) : last]:
            changed.update(dict.fromkeys(stretch.before))
        return list(changed)

    def delta(self, since: int | None, until: int, keys: Iterable[Any] | None = None) -> Delta:
        """Tell what has changed between two cuts; since None: the whole state as of a cut.

        A key that was touched and is what it was before is left out.
        """
        later = self._stretches[self._place(until) :]
        earlier = None if since is None else self._stretches[self._place(since) :]
        if keys is None:
            keys = self.keys_at(until) if since is None else self.changed_since(since, until)
        found = Delta({}, {}, [])
        for key in keys:
            image = self._as_of(later, key)
            if earlier is not None and _same(self._as_of(earlier, key), image):
                continue
            if isinstance(image, _Encoded):
                found.encoded[key] = image.data
            elif not isinstance(image, Absent):
                found.values[key] = image
            elif earlier is not None:
                found.deleted.append(key)
        return found

    def keys_at(self, epoch: int) -> list[Any]:
        """List the keys that may have a state as of a cut: what a whole delta is drawn from."""
        keys: dict[Any, None] = self._keys_now()
        for stretch in self._stretches[self._place(epoch) :]:
            keys.update(dict.fromkeys(stretch.before))
        return list(keys)

    def apply(self, delta: Delta) -> None:
        """Take in what some keys are, of this state as of another cut or of another task's."""
        for keys in delta:
            self.touch(keys)
        self.table.update(delta.values)
        for key, data in delta.encoded.items():
            self.table[key] = self._decode(data)
        for key in delta.deleted:
            self.table.pop(key, None)

    def rollback(self, epoch: int) -> None:
        """Go back to the state as of a cut; costs as much as the keys that were touched since."""
        at = self._place(epoch)
        undone: dict[Any, Any] = {}
        for stretch in reversed(self._stretches[at:]):  # what a key was earliest is what counts
            undone.update(stretch.before)
        for key, image in undone.items():
            if isinstance(image, Absent):
                self._undo_to(key, image)
            else:
                self._undo_to(key, self._decode(image.data) if isinstance(image, _Encoded) else image)
        del self._stretches[at:]
        self._begin(epoch)

    def release(self, epoch: int) -> None:
        """Forget what it takes to go back before a cut, and the deltas up to it."""
        del self._stretches[: self._place(epoch)]

    def _begin(self, epoch: int) -> None:
        stretch = _Stretch(epoch)
        self._stretches.append(stretch)
        self._before = stretch.before

    def _place(self, epoch: int) -> int:
        """Which stretch begins with a cut."""
        for at, stretch in enumerate(self._stretches):
            if stretch.since == epoch:
                return at
        known = ", ".join(str(stretch.since) for stretch in self._stretches) or "none"
        raise CutError(f"Cut {epoch} is not known here; known: {known}.", "It was never made, or has been released.")

    # -- what a backend that keeps some keys elsewhere does otherwise --------------------------------------------

    def _now(self, key: Any) -> Any:
        """What a key is now."""
        return self.table.get(key, ABSENT)

    def _keys_now(self) -> dict[Any, None]:
        """All keys that have a state."""
        return dict.fromkeys(self.table)

    def _undo_to(self, key: Any, value: Any) -> None:
        """Let a key be what it was at a cut."""
        if value is ABSENT:
            self.table.pop(key, None)
        else:
            self.table[key] = value

    # -- before-images -------------------------------------------------------------------------------------------

    def _note(self, key: Any) -> None:
        """Keep what a key is at the last cut; it has not been touched since."""
        self._before[key] = self._image(self._now(key))

    def _image(self, value: Any) -> Any:
        """A value as nobody can change it: an atom as it is, anything else encoded."""
        return value if is_atom(value) or value is ABSENT else _Encoded(self._encode(value))

    def _as_of(self, stretches: list[_Stretch], key: Any) -> Any:
        """What a key was at the beginning of the first of some stretches, which are the newest."""
        for stretch in stretches:
            if key in stretch.before:
                return stretch.before[key]
        return self._image(self._now(key))


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, _Encoded) and isinstance(other, _Encoded) and one.data == other.data)
