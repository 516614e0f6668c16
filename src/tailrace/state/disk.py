"""State larger than memory: the dict of ``memory`` as a write-back cache in front of a scratch store on disk.

As long as all keys find room it is the backend in memory, to the letter. When there are more than that, between two
pieces of the task's work, those not touched for longest are written to the store; a key that is touched comes back
first. Keys are filed under their group and hash; keys of equal hash share a place and are told apart as dicts do it.

A key is *known* when ``table`` has the truth about it: it is in the table or in ``_dirty``, where one that is missing
from the table stands for no state. Of all other keys the store has the truth.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace.state.errors import StateStorageError
from tailrace.state.keyed import Cell
from tailrace.state.memory import ABSENT, MemoryBackend, is_atom

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tailrace.state.backend import Delta, ValueCodec
    from tailrace.state.scratch import ScratchStore

#: Keys beyond the bound that are let be, so that a transaction has some to write.
_SLACK_MAX = 256
#: Keys read, restored or taken in between two looks at the bound.
_CHUNK = 512
#: Bytes of a place that are its key group.
_GROUP_BYTES = 4


class DiskBackend(MemoryBackend):
    """The states of one operator of one task, those of so many keys in memory."""

    def __init__(
        self,
        codec: ValueCodec,
        group_of: Callable[[Any], int],
        place_of: Callable[[Any], bytes],
        open_store: Callable[[], ScratchStore],
        cache_keys: int,
    ) -> None:
        super().__init__(codec, group_of)
        self._place_of = place_of
        self._open_store = open_store
        self._cache_keys = cache_keys
        self._slack = min(_SLACK_MAX, cache_keys)
        #: None while all keys are in memory.
        self._store: ScratchStore | None = None
        #: Keys that the store has, whether or not they are known.
        self._stored = 0
        #: The known keys, each once, longest known first.
        self._order: deque[Any] = deque()
        #: Known keys that may differ from what the store has of them, and whether it has anything.
        self._dirty: dict[Any, bool] = {}
        #: Of those, the ones touched since they were last passed over: they stay for another round.
        self._recent: set[Any] = set()
        #: How far a round of ``walk`` has come on disk; None while it is not there.
        self._walked: bytes | None = None
        #: Places that several keys share.
        self._shared: set[bytes] = set()

    def __len__(self) -> int:
        if self._store is None:
            return len(self.table)
        return self._stored + sum((key in self.table) - stored for key, stored in self._dirty.items())

    # -- what keyed steps call -----------------------------------------------------------------------------------

    def get(self, key: Any) -> Any:
        """Return the state of a key, None if there is none. It may be changed in place, so it counts as touched."""
        if self._store is None:
            return super().get(key)
        if key not in self.table and key not in self._dirty:
            self._fetch(key)
        value = self.table.get(key)
        if not is_atom(value):
            self._touch_one(key)
        return value

    def put(self, key: Any, value: Any) -> None:
        """Replace the state of a key."""
        if self._store is not None:
            self._touch_one(key)
        elif self.tracking and key not in self._before:
            self._note(key)
        self.table[key] = value

    def delete(self, key: Any) -> None:
        """Forget a key."""
        if self._store is not None:
            self._touch_one(key)
        elif self.tracking and key not in self._before:
            self._note(key)
        self.table.pop(key, None)

    def items(self, groups: Collection[int] | None = None) -> Iterator[tuple[Any, Any]]:
        """Give the states of the keys of some key groups, or of all; nothing may be changed meanwhile."""
        yield from self._in_table(groups)
        prefixes = [b""] if groups is None else [group.to_bytes(_GROUP_BYTES, "big") for group in sorted(groups)]
        for prefix in prefixes if self._store is not None else ():
            for key, value in self._on_disk(prefix):
                if key not in self.table and key not in self._dirty:
                    yield key, value

    def walk(self, count: int) -> list[tuple[Any, Any]]:
        """Give the next few states of a round over all there are, so many at most; nothing where a round ends.

        First what is in memory; then what is not, by place.
        """
        if self._walked is None:
            found = super().walk(count)
            if found or self._store is None:
                return found
            self._walked = b""
        while self._store is not None:
            places = self._store.scan(b"", self._walked or b"", count)
            self._walked = places[-1][0] if places else None
            pairs = [pair for _, data in places for pair in self._decode(data)]
            found = [pair for pair in pairs if pair[0] not in self.table and pair[0] not in self._dirty]
            if found or not places:
                return found
        return []

    def touch(self, keys: Iterable[Any]) -> None:
        """Note that the states of these keys are about to change; stops at a key that cannot be looked up."""
        self._make_room()
        if self._store is None:
            super().touch(keys)
            return
        for key in keys:
            try:
                hash(key)
            except Exception:  # noqa: BLE001 - whoever looks it up next finds the same, and says which value it was
                return
            self._touch_one(key)

    def touching(self, key_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Give a function that tells a value's key as ``key_of`` does, and touches it."""
        self._make_room()
        if self._store is None:
            return super().touching(key_of)

        def touched(value: Any) -> Any:
            key = key_of(value)
            self._touch_one(key)
            return key

        return touched

    def cell(self) -> Cell:
        """Make what user code sees the key at hand through; good until the next cut."""
        self._make_room()
        return super().cell() if self._store is None else Cell(self)

    def apply(self, delta: Delta) -> None:
        """Take in what some keys are, of this state as of another cut or of another task's."""
        for number, (key, value) in enumerate(delta.values.items()):
            self._room_at(number)
            self.put(key, value)
        for number, (key, data) in enumerate(delta.encoded.items()):
            self._room_at(number)
            self.put(key, self._decode(data))
        for number, key in enumerate(delta.deleted):
            self._room_at(number)
            self.delete(key)

    def close(self) -> None:
        """Remove what is on disk; nothing is asked of it any more."""
        if self._store is not None:
            self._store.close()

    # -- known keys ----------------------------------------------------------------------------------------------

    def _touch_one(self, key: Any) -> None:
        """A key is about to change: have its state here, write it back some time, and note what it was."""
        if key not in self._recent:
            if key not in self._dirty:
                if key not in self.table:
                    self._fetch(key)
                if key in self.table:
                    self._dirty[key] = True
            self._recent.add(key)
        if self.tracking and key not in self._before:
            self._note(key)

    def _fetch(self, key: Any) -> None:
        """Make a key known."""
        found = self._find(key)
        if found is None:
            self._dirty[key] = False
        else:
            key = found[0]  # equal, and perhaps of another type: the first one stays, as in a dict
            self.table[key] = found[1]
        self._order.append(key)

    def _find(self, key: Any) -> tuple[Any, Any] | None:
        """What the store has of a key."""
        for pair in self._pairs(self._place_of(key)):
            if pair[0] is key or pair[0] == key:
                return pair
        return None

    def _pairs(self, place: bytes) -> list[tuple[Any, Any]]:
        if self._store is None:
            return []
        data = self._store.get(place)
        return [] if data is None else self._decode(data)

    def _on_disk(self, prefix: bytes) -> Iterator[tuple[Any, Any]]:
        """All pairs of the store whose place begins so."""
        after = b""
        while self._store is not None:
            found = self._store.scan(prefix, after, _CHUNK)
            for _, data in found:
                yield from self._decode(data)
            if len(found) < _CHUNK:
                return
            after = found[-1][0]

    # -- room ----------------------------------------------------------------------------------------------------

    def _room_at(self, number: int) -> None:
        if not number % _CHUNK:
            self._make_room()

    def _make_room(self) -> None:
        """Write out what was not touched for longest, where there are more keys here than there is room for.

        Only between two pieces of the task's work: within one, user code may have hold of a value.
        """
        excess = len(self.table if self._store is None else self._order) - self._cache_keys
        if excess <= self._slack:
            return
        if self._store is None:
            self._store = self._open_store()
            self._order = deque(self.table)
            self._dirty = dict.fromkeys(self.table, False)
        leaving: list[Any] = []
        while excess > 0:
            key = self._order.popleft()
            if key in self._recent:
                self._recent.discard(key)
                self._order.append(key)
            else:
                leaving.append(key)
                excess -= 1
        self._write_back(leaving)

    def _write_back(self, leaving: list[Any]) -> None:
        changes: dict[bytes, list[tuple[Any, Any]]] = {}
        for key in leaving:
            stored = self._dirty.get(key)
            value = self.table.get(key, ABSENT)
            if stored is None or (value is ABSENT and not stored):
                continue
            place = self._place_of(key)
            others: list[tuple[Any, Any]] = []
            # A new key may be the second one at its place; one that was written alone is alone, unless others came.
            if not stored or place in self._shared or place in changes:
                before = changes[place] if place in changes else self._pairs(place)
                others = [pair for pair in before if pair[0] is not key and pair[0] != key]
                if others:
                    self._shared.add(place)
            changes[place] = others if value is ABSENT else [*others, (key, value)]
            self._stored += (value is not ABSENT) - stored
        if changes and self._store is not None:
            self._store.write({place: self._encoded(pairs) for place, pairs in changes.items()})
        for key in leaving:
            self._dirty.pop(key, None)
            self.table.pop(key, None)

    def _encoded(self, pairs: list[tuple[Any, Any]]) -> bytes | None:
        try:
            return self._encode(pairs) if pairs else None
        except Exception as error:
            raise StateStorageError(
                f"The state of one of the keys {[key for key, _ in pairs]} cannot be kept on disk: {error}.",
                "Keep values that pickle can carry, or use Settings(state_backend='memory').",
            ) from error

    # -- what cuts ask -------------------------------------------------------------------------------------------

    def _now(self, key: Any) -> Any:
        """What a key is now; looked up without making it known."""
        if self._store is None or key in self.table or key in self._dirty:
            return self.table.get(key, ABSENT)
        found = self._find(key)
        return ABSENT if found is None else found[1]

    def _keys_now(self) -> dict[Any, None]:
        """All keys that have a state."""
        return dict.fromkeys([key for key, _ in self.items()])

    def _undo_to(self, key: Any, value: Any) -> None:
        """Let a key be what it was at a cut."""
        if self._store is None:
            super()._undo_to(key, value)
            return
        self._make_room()
        if key not in self._dirty:
            if key not in self.table:
                self._fetch(key)
            if key in self.table:
                self._dirty[key] = True
        super()._undo_to(key, value)
