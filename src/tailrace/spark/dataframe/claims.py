"""Which Spark task feeds which lane: the feed server's books, without sockets and threads.

A partition of a batch is granted one lane and one first offset, and keeps both whoever asks again: a second attempt of
the Spark task numbers its rows as the first one did. The lane is free again when every row of the partition is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .messages import Way

Key = tuple[int, int]


@dataclass
class Lane:
    """One lane: who has it, who feeds it, and the offset after its last row that is done."""

    name: str
    number: int
    way: Way | None = None
    #: Grows with every worker that takes the lane over.
    serial: int = 0
    holder: Key | None = None
    next_base: int = 0


@dataclass
class HeldLane:
    """What a partition of a batch was granted."""

    lane: Lane
    base: int
    rows: int = -1


class LaneClaims:
    """The lanes of one DataFrame source."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.lanes = {name: Lane(name, number) for name, number in numbers.items()}
        self._held: dict[Key, HeldLane] = {}

    def up(self, names: list[str], way: Way) -> None:
        """A worker has opened these lanes; whoever had them before is gone."""
        for name in names:
            lane = self.lanes[name]
            lane.way = way
            lane.serial += 1

    def claim(self, batch: int, partition: int, host: str) -> HeldLane | None:
        """Grant a lane, on the task's own host where one is free; None when none is."""
        key = (batch, partition)
        held = self._held.get(key)
        if held is not None:
            return held
        free = [lane for lane in self.lanes.values() if lane.holder is None and lane.way is not None]
        if not free:
            return None
        near = [lane for lane in free if lane.way is not None and lane.way.host == host]
        lane = min(near or free, key=lambda each: (self._load(each), each.next_base))
        lane.holder = key
        held = self._held[key] = HeldLane(lane, lane.next_base)
        return held

    def _load(self, lane: Lane) -> int:
        """How many lanes of the same worker are being fed."""
        return sum(other.holder is not None and other.way == lane.way for other in self.lanes.values())

    def finished(self, batch: int, partition: int, rows: int) -> None:
        """Every row of a partition is done; its lane may be fed by another."""
        held = self._held.get((batch, partition))
        if held is not None and held.rows < 0:
            held.rows = rows
            held.lane.next_base = held.base + rows
            held.lane.holder = None

    def batch_over(self, batch: int) -> None:
        """Forget a batch: nobody will ask for it again."""
        self._held = {key: held for key, held in self._held.items() if key[0] != batch}
