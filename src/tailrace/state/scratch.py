"""Bytes by name in an LMDB file that nobody reads after this process: where ``disk`` puts the keys it has no room for.

Nothing is synced and nothing outlives the worker: checkpoints are what makes state durable. The folder is made when
something is written first, and goes with the object, at the latest with the process. Needs ``tailrace[disk-state]``.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.state.errors import StateExtraMissingError, StateStorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The file may become so large at first, and twice as large whenever it is full.
_MAP_BYTES = 256 * 1024 * 1024


class ScratchFolder(Protocol):
    """A folder of this process's own."""

    path: Path

    def close(self) -> None:
        """Remove it with all that is in it."""
        ...


def require_library() -> None:
    """Refuse to begin where LMDB is not installed."""
    try:
        import lmdb  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise StateExtraMissingError(
            "Settings(state_backend='disk') needs the library lmdb, which is not installed here.",
            "pip install 'tailrace[disk-state]', on the driver and on the executors.",
        ) from error


class ScratchStore:
    """One file; calls may come from any thread, one at a time."""

    def __init__(self, make_folder: Callable[[], ScratchFolder], map_bytes: int = _MAP_BYTES) -> None:
        import lmdb  # noqa: PLC0415

        self._errors = (lmdb.Error, OSError)
        self._full = lmdb.MapFullError
        self._map_bytes = map_bytes
        #: What went wrong first: what is here since then may lack something.
        self._broken: StateStorageError | None = None
        try:
            folder = make_folder()
        except OSError as error:
            raise self._named("made in", str(error.filename or ""), error) from error
        self._path = str(folder.path)
        try:
            self._env: Any = lmdb.open(
                self._path, map_size=map_bytes, sync=False, metasync=False, readahead=False, max_dbs=0
            )
        except self._errors as error:
            folder.close()
            raise self._named("opened in", self._path, error) from error
        self._finalizer = weakref.finalize(self, _remove, self._env, folder)

    def get(self, name: bytes) -> bytes | None:
        """Read what a name stands for."""
        self._check()
        try:
            with self._env.begin() as transaction:
                found: bytes | None = transaction.get(name)
                return found
        except self._errors as error:
            raise self._named("read from", self._path, error) from error

    def write(self, changes: dict[bytes, bytes | None]) -> None:
        """Replace what some names stand for, all or none of it; None removes one."""
        self._check()
        while True:
            try:
                with self._env.begin(write=True) as transaction:
                    for name, data in sorted(changes.items()):
                        if data is None:
                            transaction.delete(name)
                        else:
                            transaction.put(name, data)
            except self._full:  # noqa: PERF203 - once per doubling
                self._grow()
            except self._errors as error:
                raise self._named("written to", self._path, error) from error
            else:
                return

    def scan(self, prefix: bytes, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Give the next names with a prefix, in order, so many at most, and what they stand for."""
        self._check()
        found: list[tuple[bytes, bytes]] = []
        try:
            with self._env.begin() as transaction:
                cursor = transaction.cursor()
                there = cursor.set_range(max(prefix, after))
                if there and after and cursor.key() == after:
                    there = cursor.next()
                while there and len(found) < count and cursor.key().startswith(prefix):
                    found.append(cursor.item())
                    there = cursor.next()
        except self._errors as error:
            raise self._named("read from", self._path, error) from error
        return found

    def close(self) -> None:
        """Remove the folder."""
        self._finalizer()

    def _grow(self) -> None:
        self._map_bytes *= 2
        try:
            self._env.set_mapsize(self._map_bytes)
        except self._errors as error:
            raise self._named("written to", self._path, error) from error

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _named(self, what: str, where: str, error: Exception) -> StateStorageError:
        self._broken = StateStorageError(
            f"State was to be {what} {where}, and that failed: {error}.",
            "Is there room, and may the worker write there? Settings(state_folder=...) names another folder, "
            "state_cache_keys= says how many keys stay in memory.",
        )
        return self._broken


def _remove(env: Any, folder: ScratchFolder) -> None:
    env.close()
    folder.close()
