"""Stores whose objects are files in a tree, given that a file can be created whole and only if it is absent.

The base of folders and of Hadoop's file systems, which touch the files. A pointer is a folder of numbered files:

    epochs/12/worker-3        an object
    latest.pointer/00000007   what a pointer held
    latest.pointer/00000008   what it holds now: the highest number counts
    epochs/13/.writing-...    a file that is being written, or that a crash left; seen by nobody

``put_if`` reads the highest number *n* and creates *n* + 1 if that is absent, so of all that saw *n* one wins. There is
no lock: a lock file that a crash leaves has to be broken by its age, and whoever was only stopped then writes beside
its new holder; locks of the kernel (flock, fcntl) end with their process but are lost with a lease on NFS and are
missing from many mounts. A zombie that wakes up here finds its number taken.

Older numbers are removed ``KEPT`` behind the highest. A writer that slept through that many could create its number
again; it looks once more after creating, finds the highest far above, and has lost.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from .errors import ObjectMissingError, StoreUnreachableError
from .store import ObjectInfo, ObjectStore, Tagged, is_pointer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Files that are being written begin so; ``check_name`` lets no object begin with a dot.
WRITING = ".writing-"
#: A writer that still lives is never as slow as this with one object.
LEFTOVER_AGE_S = 3600.0
#: Numbers of a pointer that stay.
KEPT = 16
#: How often a reader may find the number it was about to read removed: each time ``KEPT`` writers overtook it.
READS_MAX = 8


class TreeFile(NamedTuple):
    """A file as a walk through the tree finds it."""

    path: str
    size_bytes: int


class TreeStore(ObjectStore):
    """Objects as files, pointers as folders of numbered files."""

    @abstractmethod
    def _create(self, path: str, data: bytes) -> bool:
        """Create a file whole and durably, with the folders above it; False if there is one."""

    @abstractmethod
    def _read(self, path: str) -> bytes:
        """Read a file, or raise ``ObjectMissingError``."""

    @abstractmethod
    def _remove(self, path: str) -> None:
        """Remove a file if it is there, and the folders above it that are empty then."""

    @abstractmethod
    def _names(self, folder: str) -> Iterable[str]:
        """List the names in a folder; none if it is absent."""

    @abstractmethod
    def _walk(self, folder: str) -> Iterable[TreeFile]:
        """List all files below a folder, by their paths from the top; none if it is absent."""

    def _put_new(self, name: str, data: bytes) -> bool:
        return self._create(name, data)

    def _get(self, name: str) -> bytes:
        return self._read(name)

    def _delete(self, name: str) -> None:
        if not is_pointer(name):
            self._remove(name)
            return
        for number in self._numbers(name):  # upwards: until the last is gone, readers find what they found before
            self._remove(_file(name, number))

    def _get_tagged(self, name: str) -> Tagged:
        found = self._newest(name)
        if found is None:
            raise ObjectMissingError(f"Expected the pointer {name!r} at {self.address}; there is none.")
        number, data = found
        return Tagged(data, _tag(number, data))

    def _put_if(self, name: str, data: bytes, tag: str | None) -> str | None:
        found = self._newest(name)
        if (_tag(*found) if found else None) != tag:
            return None
        number = found[0] + 1 if found else 1
        if not self._create(_file(name, number), data):
            return None
        numbers = self._numbers(name)
        if numbers and numbers[-1] >= number + KEPT:
            self._remove(_file(name, number))
            return None
        for old in numbers:
            if old <= number - KEPT:
                self._remove(_file(name, old))
        return _tag(number, data)

    def _list(self, prefix: str) -> Sequence[ObjectInfo]:
        found: dict[str, tuple[str, int]] = {}
        for path, size_bytes in self._walk(prefix):
            folder, _, file = path.rpartition("/")
            if file.startswith("."):
                continue
            name = folder if is_pointer(folder) else path
            found[name] = max(found.get(name, ("", 0)), (path, size_bytes))
        return [ObjectInfo(name, size_bytes) for name, (_, size_bytes) in found.items()]

    def _numbers(self, name: str) -> list[int]:
        return sorted(int(file) for file in self._names(name) if file.isdigit())

    def _newest(self, name: str) -> tuple[int, bytes] | None:
        for _ in range(READS_MAX):
            numbers = self._numbers(name)
            if not numbers:
                return None
            try:
                return numbers[-1], self._read(_file(name, numbers[-1]))
            except ObjectMissingError:
                continue
        raise StoreUnreachableError(
            f"Expected to read the pointer {name!r} at {self.address}; it was replaced faster than it could be read.",
            "See who writes to it: a pointer is meant for one writer at a time.",
        )


def _file(name: str, number: int) -> str:
    return f"{name}/{number:08d}"


def _tag(number: int, data: bytes) -> str:
    """Name what a pointer holds; with the data's digest, since numbers begin again when a pointer is deleted."""
    return f"{number}-{hashlib.blake2b(data, digest_size=8).hexdigest()}"
