"""Tasks that come from another worker: their parts, gathered, and the task built anew from them.

Part of ``mover``. Parts may come before the plan is known here, because they travel between workers and the plan comes
from the coordinator; those of a plan that is over are left.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.transport import codec

from .build import build_task
from .errors import operator_error
from .handover import low_water, unpack
from .move_plan import era_of

if TYPE_CHECKING:
    from .build import Site
    from .floor import Floor
    from .move_plan import Move, MovePlan
    from .task import Task

#: In front of each part: epoch, number of the part, whether it is the last.
PART_HEAD = struct.Struct("<II?")

#: A task's place among those of a plan: epoch and number.
Key = tuple[int, int]


class Parcels:
    """Parts of tasks on their way to this worker."""

    def __init__(self) -> None:
        self._parts: dict[Key, list[bytes]] = {}
        self._whole: set[Key] = set()

    def take(self, place: int, content: memoryview, closed: int) -> tuple[int, Key | None]:
        """Take a part in; gives its epoch, 0 if that is over, and its task, None if a part before it was lost."""
        epoch, number, last = PART_HEAD.unpack_from(content)
        if epoch <= closed:
            return 0, None
        key = epoch, place
        parts = self._parts.setdefault(key, [])
        if len(parts) != number:
            return epoch, None
        parts.append(bytes(content[PART_HEAD.size :]))
        if last:
            self._whole.add(key)
        return epoch, key

    def is_whole(self, key: Key) -> bool:
        """Whether all parts of a task are here."""
        return key in self._whole

    def whole(self) -> list[Key]:
        """The tasks that are here with all their parts."""
        return sorted(self._whole)

    def pop(self, key: Key) -> bytes:
        """Take a whole task out."""
        self._whole.discard(key)
        return b"".join(self._parts.pop(key))

    def forget(self, epoch: int) -> None:
        """A plan is over, and all before it."""
        self._whole = {key for key in self._whole if key[0] > epoch}
        self._parts = {key: parts for key, parts in self._parts.items() if key[0] > epoch}


def rebuilt(data: bytes, move: Move, plan: MovePlan, floor: Floor, site: Site) -> Task:
    """Build a task anew, open it and let it go on where it stopped; it sends and reads nothing yet."""
    parcel = codec.loads(data)
    placement = [list(row) for row in site.placement]
    for each in plan.moves.values():
        placement[each.stage][each.task] = each.new
    low = low_water(parcel)
    partitions = [[*row[:-1], low.get(row[0], row[-1])] for row in site.partitions]
    there = replace(site, placement=placement, partitions=partitions)
    task = build_task(floor.program, there, floor.program.plan.stages[move.stage], move.task)
    if not parcel["closed"]:
        try:
            task.chain.open()
        except Exception as error:
            raise operator_error(task.name, task.index, "open()", error) from error
    unpack(task, parcel, floor.clock.now_ns())
    era = era_of(plan.epoch)
    for channel in task.inbox.channels.values() if task.inbox is not None else ():
        channel.era = era
    for box in task.boxes:
        box.paused, box.era = True, era
    if task.source is not None:
        task.source.paused = True
    return task
