"""How many bytes may wait in each queue of a worker: shares of ``Settings.queue_bytes``.

Each task has three parts at most: what waits in front of it, what waits behind it, and, at a source, what its open
roots may have to send again. What waits for the driver has a part by itself. A queue always takes one batch, however
large, so nothing stands still for being too large; ``frame_bytes_max`` is the bound for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.config import Settings

#: Of a worker's queues in all, where the host does not know what an executor has.
QUEUE_BYTES = 256 * 1024 * 1024
#: A channel's window, and any other queue, at least: as much as a frame aims at.
WINDOW_BYTES_MIN = 128 * 1024
_PARTS_PER_TASK = 3
_DRIVER_PART = 4


@dataclass(frozen=True)
class QueueBounds:
    """Bytes per queue."""

    #: In front of one task, over all its channels.
    inbox: int
    #: Behind one task, over all its destinations.
    outbox: int
    #: What the open roots of one source task gave.
    pending: int
    #: From one worker to the driver.
    driver: int

    def window(self, senders: int) -> int:
        """What each of so many senders may have under way to one task."""
        return max(WINDOW_BYTES_MIN, self.inbox // max(1, senders))


def queue_bounds(settings: Settings, placement: Sequence[Sequence[int]]) -> QueueBounds:
    """Share a worker's bytes out over as many tasks as workers have on average."""
    total = settings.queue_bytes or QUEUE_BYTES
    slots = [slot for stage in placement for slot in stage]
    tasks = -(-len(slots) // max(1, len(set(slots))))
    share = max(WINDOW_BYTES_MIN, total // (_PARTS_PER_TASK * max(1, tasks)))
    return QueueBounds(inbox=share, outbox=share, pending=share, driver=max(WINDOW_BYTES_MIN, total // _DRIVER_PART))
