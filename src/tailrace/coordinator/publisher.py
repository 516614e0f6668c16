"""Publishes a query's checkpoints in a thread of the driver: writes manifests, copies savepoints, retires old ones.

The coordinator's brain says what is to be published and hears what came of it; nothing of that waits for a store.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from tailrace.checkpoint.savepoint import copy_savepoint

if TYPE_CHECKING:
    from tailrace.checkpoint.driver_objects import DriverObjects, DriverValue
    from tailrace.checkpoint.log import ManifestLog
    from tailrace.checkpoint.manifest import Manifest
    from tailrace.checkpoint.savepoint import WrittenSavepoint
    from tailrace.checkpoint.stores.store import ObjectStore
    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.loop import CoordinatorLoop
    from tailrace.coordinator.savepoints.requests import SavepointRequest

_log = logging.getLogger("tailrace")
#: How often it is looked whether something is to be published; a checkpoint takes longer than this anyway.
_LOOK_S = 0.005


class Publisher:
    """The thread that publishes."""

    def __init__(self, loop: CoordinatorLoop, log: ManifestLog, objects: DriverObjects, keep: int) -> None:
        self._loop = loop
        self._log = log
        self._objects = objects
        self._keep = keep
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="tailrace-publisher", daemon=True)

    def start(self) -> None:
        """Begin to publish."""
        self._thread.start()

    def close(self) -> None:
        """Publish what waits, then end."""
        self._closing.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self._closing.wait(_LOOK_S):
            found = self._loop.look(next_entry)
            if found is not None:
                self._publish(*found)
            # In this thread, which also removes old objects: nothing of an epoch goes while it is copied.
            request = self._loop.look(_next_copy)
            if request is not None:
                self._copy(request)

    def _copy(self, request: SavepointRequest) -> None:
        written, error = copied(request, self._log.store)

        def tell(brain: CoordinatorBrain, now_ns: int) -> None:
            del now_ns
            if brain.checkpoints is not None:
                brain.checkpoints.copied(request, written, error)

        self._loop.ask(tell)

    def _publish(self, manifest: Manifest, values: list[DriverValue]) -> None:
        error: Exception | None = None
        try:
            manifest = self._objects.add(manifest, values)
            self._log.append(manifest)
        except Exception as found:  # noqa: BLE001 - whatever a store raises fails this epoch, by its name
            error = found

        def tell(brain: CoordinatorBrain, now_ns: int) -> None:
            entered(brain, manifest, values, error, now_ns)

        self._loop.ask(tell)
        if error is None:
            try:
                self._log.retire(self._keep)
            except Exception as found:  # noqa: BLE001 - old objects only take room
                _log.warning("old checkpoints could not be removed: %s", found)


def copied(request: SavepointRequest, source: ObjectStore) -> tuple[WrittenSavepoint | None, Exception | None]:
    """Copy a savepoint; gives what was written, or why it could not be."""
    try:
        if request.manifest is not None:
            return copy_savepoint(source, request.manifest, request.target), None
    except Exception as error:  # noqa: BLE001 - whatever a store raises is for whoever asked for the savepoint
        return None, error
    return None, None


def _next_copy(brain: CoordinatorBrain) -> SavepointRequest | None:
    return None if brain.checkpoints is None else brain.checkpoints.savepoints.next_to_copy()


def next_entry(brain: CoordinatorBrain) -> tuple[Manifest, list[DriverValue]] | None:
    """The entry that is to be made now, and what sinks on the driver have taken since the last; None if there is none.

    A value that the driver has not got yet is in the part of its task.
    """
    manifest = None if brain.checkpoints is None else brain.checkpoints.next_to_publish()
    return None if manifest is None else (manifest, brain.received.unwritten(manifest.numbers))


def entered(
    brain: CoordinatorBrain, manifest: Manifest, values: list[DriverValue], error: Exception | None, now_ns: int
) -> None:
    """An entry was made with these values of the driver, or could not be."""
    if error is None:
        brain.received.written(values)
    if brain.checkpoints is not None:
        brain.checkpoints.published(manifest, error, now_ns)
