"""Reads and writes objects of a checkpoint: again where a store does not answer, and to see whether they are whole.

Called by workers that write parts or restore tasks, by a driver that is about to resume, and by whoever looks inside.
Blocking.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from tailrace.checkpoint import sealing
from tailrace.checkpoint.errors import CheckpointCorruptError, CheckpointError, ForeignCheckpointError
from tailrace.checkpoint.stores.errors import ObjectMissingError, StoreError
from tailrace.checkpoint.stores.store import claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.checkpoint.manifest import Manifest
    from tailrace.checkpoint.stores.store import ObjectStore

T = TypeVar("T")

_TRIES = 4
_WAIT_S = 0.1
#: Objects that are read at a time to be checked.
_READERS = 4


def again_if_transient(call: Callable[[], T]) -> T:
    """Call, and call again if a store could not answer; raises what the last try did."""
    for _ in range(_TRIES - 1):
        try:
            return call()
        except StoreError as error:  # noqa: PERF203 - a store is waited for anyway
            if not error.transient:
                raise
            time.sleep(_WAIT_S)
    return call()


def read_object(store: ObjectStore, name: str) -> bytes:
    """Read an object that a manifest names."""
    try:
        return again_if_transient(lambda: store.get(name))
    except ObjectMissingError as error:
        raise missing(name) from error


def write_object(store: ObjectStore, name: str, data: bytes) -> None:
    """Write an object under a name that only this writer can have."""
    if not again_if_transient(lambda: claim(store, name, data)):
        raise ForeignCheckpointError(
            f"{name} was written by another query or start while this one wrote it: both have the same checkpoint.",
            "Give every query a folder of its own, and let only one driver run it.",
        )


def missing(name: str) -> CheckpointCorruptError:
    """The error of an object that a manifest names and that is not there."""
    return CheckpointCorruptError(
        f"{name} is missing, and an entry of the checkpoint needs it.",
        "Was it removed, or the checkpoint copied in part? An earlier epoch may be whole.",
    )


def faults_of(store: ObjectStore, manifest: Manifest) -> list[CheckpointError]:
    """What is wrong with the objects of an entry; reads them all, a few at a time."""

    def fault(name: str) -> CheckpointError | None:
        kind = sealing.DRIVER if name in manifest.driver else sealing.PART
        try:
            sealing.unseal(kind, read_object(store, name), name)
        except CheckpointError as error:
            return error
        return None

    with ThreadPoolExecutor(_READERS, "tailrace-check") as pool:
        return [found for found in pool.map(fault, sorted(manifest.objects)) if found is not None]
