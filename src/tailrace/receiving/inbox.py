"""The inbox of one task: batches in order of arrival, with a bound per channel that its sender keeps to.

Each task has its own (``per_task``): simple, but a slow task's queue grows while its sibling idles. Pure bookkeeping;
the brain tells senders what was consumed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.batch import Batch


class Channel:
    """The receiving end of one sender task's way to this task."""

    __slots__ = ("consumed", "ended", "id", "received", "reported", "serial", "slot", "stale", "window")

    def __init__(self, channel: int, slot: int, window: int) -> None:
        self.id = channel
        self.slot = slot
        self.window = window
        self.ended = False
        self.stale = self.received = self.consumed = 0
        self.reset()

    def reset(self) -> None:
        """Begin anew with a sender that knows nothing of this channel, nor of what still waits from the one before."""
        self.stale += self.received - self.consumed
        self.received = 0
        self.consumed = 0
        self.reported = 0
        self.serial = 0

    def consume(self, tuples: int) -> None:
        """Note that tuples were taken; those of an earlier sender, which are taken first, give the new one no room."""
        stale = min(self.stale, tuples)
        self.stale -= stale
        self.consumed += tuples - stale

    @property
    def credit_due(self) -> bool:
        """Whether enough was consumed to be worth telling the sender."""
        return self.consumed - self.reported >= self.window // 4


class Inbox:
    """Batches waiting for one task."""

    def __init__(self, channels: dict[int, Channel]) -> None:
        self.channels = channels
        self.tuples = 0
        self.tuples_most = 0
        self._waiting: deque[tuple[Channel, Batch, int]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def ended(self) -> bool:
        """Whether every sender has said that nothing more comes, and all that came was taken."""
        return not self._waiting and all(channel.ended for channel in self.channels.values())

    def put(self, channel: Channel, batch: Batch, now_ns: int) -> None:
        """Let a batch wait."""
        channel.received += len(batch)
        self.tuples += len(batch)
        self.tuples_most = max(self.tuples_most, self.tuples)
        self._waiting.append((channel, batch, now_ns))

    def take(self, values_max: int) -> tuple[Channel, Batch, int]:
        """Take the oldest batch, or its first part when it is large."""
        channel, batch, since_ns = self._waiting.popleft()
        first, rest = batch.split(values_max)
        if rest is not None:
            self._waiting.appendleft((channel, rest, since_ns))
        self.tuples -= len(first)
        channel.consume(len(first))
        return channel, first, since_ns
