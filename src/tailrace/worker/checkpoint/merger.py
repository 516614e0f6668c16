"""Makes one object of several parts of a checkpoint, in a thread of its own, so that chains of parts stay short.

The coordinator orders it (``MergeParts``) and replaces the parts when it hears that the object is there. Reads and
writes a store; touches no task. Decision 040 has the argument.
"""

from __future__ import annotations

import logging
import queue
import threading
import uuid
from collections import deque
from typing import TYPE_CHECKING

from tailrace.checkpoint.keyed import delta_of, followed_by, keyed_part
from tailrace.checkpoint.log import part_name
from tailrace.checkpoint.objects import read_object, write_object
from tailrace.checkpoint.part import TaskPart, WorkerPart, decode_part, encode_part
from tailrace.protocol import PartsMerged
from tailrace.state.backend import Delta
from tailrace.state.snapshot import OperatorSnapshot, TaskSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.checkpoint.stores.store import ObjectStore
    from tailrace.protocol import FromWorker, MergeParts

_log = logging.getLogger("tailrace.worker")


class _Run:
    """Parts of one task, one after the other becoming one."""

    def __init__(self, stage: int, task: int, names: Iterable[str]) -> None:
        self._ident = (stage, task)
        #: Parts that are still to be taken in, oldest first.
        self.left = deque(names)
        self._deltas: dict[str, tuple[int | None, Delta]] = {}

    def take_in(self, object_: WorkerPart) -> None:
        """Go on by the first of those that are left."""
        self.left.popleft()
        (part,) = (each for each in object_.tasks if (each.snapshot.stage, each.snapshot.task) == self._ident)
        for operator, snapshot in part.snapshot.operators.items():
            for keyed in snapshot.keyed:
                since, held = self._deltas.get(operator, (keyed.since, Delta({}, {}, [])))
                self._deltas[operator] = since, followed_by(held, delta_of(keyed))

    def whole(self) -> TaskPart:
        """What came of it: what is not by key counts in the newest part of a chain only, which is never merged."""
        operators = {
            operator: OperatorSnapshot([keyed_part(delta, since=since)])
            for operator, (since, delta) in self._deltas.items()
        }
        return TaskPart(TaskSnapshot(*self._ident, operators))


def merge(order: MergeParts, get: Callable[[str], bytes]) -> WorkerPart:
    """Make one object of the parts of some tasks; one that several of them need next is read once."""
    runs = [_Run(*task) for task in order.tasks]
    while name := next((run.left[0] for run in runs if run.left), ""):
        part = decode_part(get(name), name)
        for run in runs:
            if run.left and run.left[0] == name:
                run.take_in(part)
    return WorkerPart(order.epoch, [run.whole() for run in runs])


def answer_to(order: MergeParts, store: ObjectStore, slot: int) -> PartsMerged:
    """Merge and write; what fails costs nothing, because the parts are still there."""
    # The name is random at its end: a worker that was taken for dead may still be at the same.
    name = part_name(order.epoch, order.attempt, order.execution, f"{slot}-{uuid.uuid4().hex[:12]}-merged")
    try:
        data = encode_part(merge(order, lambda part: read_object(store, part)))
        write_object(store, name, data)
    except Exception as error:  # noqa: BLE001 - a store, or user code that makes values again
        _log.warning("parts of checkpoints stay as they are, because they could not be merged: %s", error)
        name = ""
    return PartsMerged(order.execution, order.epoch, name)


class PartMerger:
    """The thread that merges for one worker; there is none before there is an order."""

    def __init__(self, store: ObjectStore, wakeup: Callable[[], None]) -> None:
        self._store = store
        self._wakeup = wakeup
        self._asked: queue.SimpleQueue[tuple[int, MergeParts, deque[FromWorker]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def attend(self, orders: deque[MergeParts], told: deque[FromWorker], slot: int) -> None:
        """Take orders; called in every round of the loop."""
        while orders:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="tailrace-merges", daemon=True)
                self._thread.start()
            self._asked.put((slot, orders.popleft(), told))

    def close(self) -> None:
        """Merge nothing more; what is under way is left to itself."""
        self._asked.put(None)

    def _serve(self) -> None:
        while (asked := self._asked.get()) is not None:
            slot, order, told = asked
            told.append(answer_to(order, self._store, slot))
            self._wakeup()
