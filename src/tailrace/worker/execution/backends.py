"""Which backend keeps the state of keyed operators: the one in memory, or the one that has a disk to go to.

``build`` asks for a factory per task by the query's settings, ``chain`` calls it per operator. Another backend is
chosen here. Touches the disk when a state outgrows its memory first.
"""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.routing.fields import GroupIndex, stable_hash
from tailrace.state.backend import ValueCodec
from tailrace.state.disk import DiskBackend
from tailrace.state.errors import StateStorageError
from tailrace.state.memory import MemoryBackend
from tailrace.state.named import user_key
from tailrace.state.scratch import ScratchStore, require_library
from tailrace.transport import codec
from tailrace.transport.segments import Folder, NoSharedMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.config import Settings
    from tailrace.state.backend import BackendFactory, StateBackend

#: How values of users are written.
CODEC = ValueCodec(codec.dumps, codec.loads)
#: Where a worker of Spark may keep what goes with it: by whoever runs the cluster, first folder of a list.
_LOCAL_FOLDERS = ("SPARK_LOCAL_DIRS", "LOCAL_DIRS")
_PLACE = struct.Struct(">IQ")


def backends_of(settings: Settings, key_groups: int) -> BackendFactory:
    """Keep states as the settings say; the keys of the stage are spread over so many groups."""
    return memory_backends(key_groups) if settings.state_backend == "memory" else disk_backends(settings, key_groups)


def memory_backends(key_groups: int) -> BackendFactory:
    """Keep states in memory."""
    group_of = _group_of(key_groups)

    def backend_of(operator: str) -> StateBackend:
        del operator  # only who keeps it elsewhere needs a name for it
        return MemoryBackend(CODEC, group_of)

    return backend_of


def disk_backends(settings: Settings, key_groups: int) -> BackendFactory:
    """Keep so many keys of each operator in memory, and all others on disk."""
    require_library()
    group_of = _group_of(key_groups)

    def place_of(key: Any) -> bytes:
        owner = user_key(key)
        if owner is key:
            hashed = stable_hash(key)
            return _PLACE.pack(hashed % key_groups, hashed)
        return _PLACE.pack(group_of(key), stable_hash(key[1:]))

    def open_store() -> ScratchStore:
        return ScratchStore(lambda: _folder(settings.state_folder))

    def backend_of(operator: str) -> StateBackend:
        del operator
        return DiskBackend(CODEC, group_of, place_of, open_store, settings.state_cache_keys)

    return backend_of


def _group_of(key_groups: int) -> Callable[[Any], int]:
    groups = GroupIndex(key_groups)
    return lambda key: groups[user_key(key)]


def _folder(given: str) -> Folder:
    """Make a folder that names its owner, so that it is removed when that was killed."""
    local = next((os.environ[name] for name in _LOCAL_FOLDERS if os.environ.get(name)), tempfile.gettempdir())
    base = Path(given or local.split(",", maxsplit=1)[0])
    try:
        base.mkdir(parents=True, exist_ok=True)
        return Folder.make(base)
    except (OSError, NoSharedMemoryError) as error:
        found = error.message if isinstance(error, NoSharedMemoryError) else str(error)
        raise StateStorageError(
            f"A folder for state was expected below {base}: {found}",
            "Give workers one with room that they may write to: Settings(state_folder=...).",
        ) from error
