"""What sinks on the driver have taken, as objects of a checkpoint: for a driver that goes on where another stopped.

One object per epoch in which something came; the last ones are merged while they are no larger than what is added, so
there are few, and each value is written a few times only. Blocking: called by whoever publishes, and at a resumption.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import msgspec

from tailrace.checkpoint import sealing
from tailrace.checkpoint.errors import CheckpointCorruptError
from tailrace.checkpoint.log import part_name
from tailrace.checkpoint.stores.store import claim

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.checkpoint.manifest import Manifest
    from tailrace.checkpoint.stores.store import ObjectStore


class DriverValue(msgspec.Struct, frozen=True, array_like=True):
    """One message of a task to a sink on the driver; ``values`` as the task encoded them."""

    operator: str
    task: int
    number: int
    values: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[DriverValue]).decode


class DriverObjects:
    """The objects of one checkpoint."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        #: Ends the names: starts before the first durable epoch have the same attempt and execution.
        self._writer = f"driver-{uuid.uuid4().hex[:12]}"
        self._sizes: dict[str, int] = {}

    def read(self, names: Iterable[str]) -> list[DriverValue]:
        """All messages of some objects, in the order in which they came."""
        return [value for name in names for value in self._read(name)]

    def _read(self, name: str) -> list[DriverValue]:
        data = self._store.get(name)
        self._sizes[name] = len(data)
        try:
            return _decode(sealing.unseal(sealing.DRIVER, data, name))
        except msgspec.DecodeError as error:
            raise CheckpointCorruptError(
                f"{name} is whole but holds no values of the driver: {error}.", "Was it written by Tailrace?"
            ) from error

    def add(self, manifest: Manifest, values: list[DriverValue]) -> Manifest:
        """Write what has come since the last entry; gives the manifest that names it."""
        if not values:
            return manifest
        names = list(manifest.driver)
        data = sealing.seal(sealing.DRIVER, _encode(values))
        while names and self._sizes.get(names[-1], 0) <= len(data):
            values = self._read(names.pop()) + values
            data = sealing.seal(sealing.DRIVER, _encode(values))
        name = part_name(manifest.epoch, manifest.attempt, manifest.execution, self._writer)
        claim(self._store, name, data)
        self._sizes[name] = len(data)
        return msgspec.structs.replace(manifest, driver=(*names, name))
