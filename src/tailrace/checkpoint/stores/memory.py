"""A store in this process's memory: for tests, for the in-process run, and to try checkpoints without a disk.

Nothing of it outlives the process, so it keeps no state of a query that is meant to survive its driver.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

from .errors import ObjectMissingError
from .store import ObjectInfo, ObjectStore, Tagged

if TYPE_CHECKING:
    from collections.abc import Sequence

_shared: dict[str, MemoryStore] = {}
_sharing = threading.Lock()


class MemoryStore(ObjectStore):
    """Objects in a dict."""

    # Workers are other processes; they hand their data to the driver.
    reachable_from_workers = False

    def __init__(self, address: str = "memory:") -> None:
        super().__init__(address)
        self._objects: dict[str, Tagged] = {}
        self._tags = itertools.count(1)
        self._lock = threading.Lock()

    @classmethod
    def shared(cls, address: str) -> MemoryStore:
        """Give the one store of this address in this process."""
        with _sharing:
            return _shared.setdefault(address, cls(address))

    def _put_new(self, name: str, data: bytes) -> bool:
        return self._put_if(name, data, None) is not None

    def _put_if(self, name: str, data: bytes, tag: str | None) -> str | None:
        with self._lock:
            there = self._objects.get(name)
            if (there.tag if there else None) != tag:
                return None
            written = self._objects[name] = Tagged(bytes(data), str(next(self._tags)))
            return written.tag

    def _get(self, name: str) -> bytes:
        return self._get_tagged(name).data

    def _get_tagged(self, name: str) -> Tagged:
        with self._lock:
            try:
                return self._objects[name]
            except KeyError:
                raise ObjectMissingError(f"Expected the object {name!r} at {self.address}; there is none.") from None

    def _delete(self, name: str) -> None:
        with self._lock:
            self._objects.pop(name, None)

    def _list(self, prefix: str) -> Sequence[ObjectInfo]:
        below = f"{prefix}/" if prefix else ""
        with self._lock:
            return [ObjectInfo(name, len(it.data)) for name, it in self._objects.items() if name.startswith(below)]
