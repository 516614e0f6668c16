"""The markers of checkpoints as they come in: counted per channel.

``delivery`` hands each marker over in order with the data of its channel. A snapshot at the first marker of an epoch
has its place here; until there is one, nothing follows from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.items import Marker
    from tailrace.receiving.inbox import Channel
    from tailrace.worker.execution.task import Task


class MarkerCount:
    """How many markers have come by each channel."""

    def __init__(self) -> None:
        self.by_channel: dict[int, int] = {}

    def arrived(self, task: Task, channel: Channel, marker: Marker) -> None:
        """Count a marker that has come to a task."""
        del task, marker
        self.by_channel[channel.id] = self.by_channel.get(channel.id, 0) + 1
