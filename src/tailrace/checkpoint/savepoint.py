"""Savepoints: epochs of a checkpoint copied to a place of their own, which nothing that happens later changes.

A savepoint is a log with one entry, with every object that the entry needs beside it. The driver writes one for
``query.savepoint`` and reads one for ``tr.start(restore=)``. Blocking: called from threads that may wait for stores.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tailrace.checkpoint import sealing
from tailrace.checkpoint.errors import SavepointExistsError, SavepointMissingError
from tailrace.checkpoint.log import ManifestLog, manifest_name
from tailrace.checkpoint.manifest import write_manifest
from tailrace.checkpoint.objects import read_object
from tailrace.checkpoint.stores import open_store
from tailrace.checkpoint.stores.errors import ObjectMissingError
from tailrace.checkpoint.stores.store import claim
from tailrace.errors import ConfigError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from tailrace.checkpoint.manifest import Manifest
    from tailrace.checkpoint.stores.store import ObjectStore

_log = logging.getLogger("tailrace")
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Savepoint:
    """What a query begins from, and which changes of its topology since then are meant."""

    #: A savepoint, or the folder of a checkpoint, of which the newest durable epoch counts.
    path: str | os.PathLike[str]
    #: What the store needs to know beside its address.
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The name that the query had, where it has another one now.
    query: str | None = None
    #: Operators that begin without state, and operators whose state is left behind.
    new: Sequence[str] = ()
    dropped: Sequence[str] = ()
    #: Per operator what makes its state of now: ``fn(key, state)``, or ``fn(state)`` of what ``snapshot()`` gave.
    migrate: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    #: Partitions of sources that are not read any more.
    dropped_partitions: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("new", "dropped", "dropped_partitions"):
            given = getattr(self, name)
            if isinstance(given, str) or not all(isinstance(each, str) for each in given):
                raise ConfigError(f"Savepoint {name} must be a list of names; found {given!r}.", f"Write {name}=[...].")
        for name, fn in self.migrate.items():
            if not callable(fn):
                raise ConfigError(f"Savepoint migrate gives a function per operator; found {fn!r} for {name!r}.")


class WrittenSavepoint(NamedTuple):
    """A savepoint that was made; give its ``path`` to ``tr.start(restore=)``."""

    path: str
    epoch: int
    #: Whether nothing was in flight, so that it may be resumed with other numbers of tasks.
    drained: bool
    objects: int
    bytes: int

    def __str__(self) -> str:
        kind = "drained savepoint" if self.drained else "savepoint"
        return f"{kind} of epoch {self.epoch} at {self.path}: {self.objects} objects, {self.bytes} bytes"


class FoundSavepoint(NamedTuple):
    """What was found at the path of a savepoint."""

    store: ObjectStore
    manifest: Manifest
    #: Tells it from every other.
    digest: str


def open_empty(path: str | os.PathLike[str], options: Mapping[str, str] | None, spark: Any) -> ObjectStore:
    """Open the store that a savepoint is to be written to; raises where there is something already."""
    store = open_store(path, options, spark)
    if there := store.list():
        raise SavepointExistsError(
            f"A savepoint is written to a place of its own; {store.address} has {there[0].name!r}"
            f"{f' and {len(there) - 1} more' if there[1:] else ''}.",
            "Give a folder that is empty, or does not exist yet.",
        )
    return store


def copy_savepoint(source: ObjectStore, manifest: Manifest, target: ObjectStore) -> WrittenSavepoint:
    """Copy an epoch with all its objects; it is there from when its one entry is."""
    manifest = msgspec.structs.replace(manifest, driver=())  # what sinks on the driver were given stays with the query
    size_bytes = copy_objects(source, manifest, target)
    entry = write_manifest(msgspec.structs.replace(manifest, number=1, kind="savepoint", restored_from=""))
    if not claim(target, manifest_name(1), entry):
        raise SavepointExistsError(
            f"Another savepoint was written to {target.address} meanwhile.", "Give every savepoint a place of its own."
        )
    return WrittenSavepoint(
        target.address, manifest.epoch, manifest.drained, len(manifest.objects), size_bytes + len(entry)
    )


def copy_objects(source: ObjectStore, manifest: Manifest, target: ObjectStore) -> int:
    """Copy what an entry needs, each object looked through first; gives the bytes."""
    size_bytes = 0
    for name in sorted(manifest.objects):
        data = whole_object(source, name, sealing.DRIVER if name in manifest.driver else sealing.PART)
        if not claim(target, name, data):
            raise SavepointExistsError(
                f"{target.address} has another {name!r} already.", "Give every savepoint a place of its own."
            )
        size_bytes += len(data)
    return size_bytes


def whole_object(store: ObjectStore, name: str, kind: int) -> bytes:
    """Read an object that is there and whole."""
    data = read_object(store, name)
    sealing.unseal(kind, data, name)
    return data


def find_savepoint(restore: Savepoint, spark: Any) -> FoundSavepoint:
    """Find the newest epoch at a path; raises where there is none."""
    try:
        store = open_store(restore.path, restore.options, spark, writable=False)
    except ObjectMissingError as error:
        raise SavepointMissingError(
            f"A savepoint or a checkpoint was looked for; {error.message}", "See whether the path is right."
        ) from error
    found = ManifestLog(store).newest()
    if found.manifest is None:
        raise SavepointMissingError(
            f"A savepoint or a checkpoint was looked for at {store.address}; "
            + (found.broken[0].message if found.broken else "there is none."),
            "Give the path that query.savepoint() or query.stop(savepoint=) was given.",
        )
    for broken in found.broken:
        _log.warning("%s Epoch %d is used instead.", broken.message, found.manifest.epoch)
    return FoundSavepoint(store, found.manifest, _digest(found.manifest))


def _digest(manifest: Manifest) -> str:
    return hashlib.blake2b(write_manifest(manifest), digest_size=_DIGEST_BYTES).hexdigest()
