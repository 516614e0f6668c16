"""The inbox of one task: batches in order of arrival, with a bound per channel that its sender keeps to.

Each task has its own (``per_task``): simple, but a slow task's queue grows while its sibling idles; the one that
siblings share is in ``shared_inbox``. Pure bookkeeping; the brain tells senders what was consumed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.batch import Batch


class Channel:
    """The receiving end of one sender task's way to this task."""

    __slots__ = (
        "at_end",
        "channel_epoch",
        "consumed",
        "credit_step",
        "ended",
        "ending",
        "id",
        "paused",
        "prompt",
        "received",
        "reported",
        "slot",
        "stale",
        "window",
    )  # fmt: skip

    def __init__(self, channel: int, slot: int, window: int, *, at_end: bool = False, prompt: bool = False) -> None:
        self.id = channel
        self.slot = slot
        self.window = window
        #: Whether a tuple counts as consumed only when the work on it is done: its sender goes by that.
        self.at_end = at_end
        #: Whether the sender waits for that word before it sends more, so that it may not gather.
        self.prompt = prompt
        self.ended = False
        #: The newest plan of moves for which the sender has stopped sending.
        self.paused = 0
        self.stale = self.received = self.consumed = 0
        self.reset()

    def reset(self, channel_epoch: int = 0) -> None:
        """Begin again with a sender that knows nothing of this channel, nor of what still waits from the one before."""
        self.channel_epoch = channel_epoch
        self.stale += self.received - self.consumed
        self.received = 0
        self.consumed = 0
        self.reported = 0
        #: Tuples consumed that are worth telling the sender; ``hurry`` changes it.
        self.credit_step = self.window // 4
        #: Its end, while that waits in a shared queue behind tuples that come first.
        self.ending: object | None = None

    @property
    def credit_due(self) -> bool:
        """Whether so much was consumed since the sender was told that it is worth telling."""
        return self.consumed - self.reported >= self.credit_step

    def hurry(self, *, on: bool) -> None:
        """Let whatever is taken be worth telling the sender, which waits for bytes; or a part of the window again."""
        self.credit_step = 1 if on else self.window // 4

    def consume(self, tuples: int) -> None:
        """Note tuples taken (``at_end``: done); those of an earlier sender come first and give the new one no room."""
        if self.stale:
            stale = min(self.stale, tuples)
            self.stale -= stale
            tuples -= stale
        self.consumed += tuples

    def unconsume(self, tuples: int) -> None:
        """Note that tuples taken wait again: whoever took them is gone."""
        self.consumed -= tuples


#: From whom, how many tuples, and when they came.
Arrival = tuple[Channel, int, int]


class Inbox:
    """Batches waiting for one task."""

    def __init__(self, channels: dict[int, Channel]) -> None:
        self.channels = channels
        self.tuples = 0
        self.tuples_most = 0
        #: Batches with their channel and time of arrival, oldest first.
        self.waiting: deque[tuple[Channel, Batch, int]] = deque()

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def ended(self) -> bool:
        """Whether every sender has said that nothing more comes, and all that came was taken."""
        if self.waiting:
            return False
        for channel in self.channels.values():  # noqa: SIM110 - asked twice for each piece of work; all() takes longer
            if not channel.ended:
                return False
        return True

    @property
    def has_more(self) -> bool:
        """Whether the task has more to do: batches that wait, or its end."""
        return bool(self.waiting) or self.ended

    def put(self, channel: Channel, batch: Batch, now_ns: int) -> None:
        """Let a batch wait."""
        count = len(batch.values)
        channel.received += count
        self.tuples += count
        self.tuples_most = max(self.tuples_most, self.tuples)
        self.waiting.append((channel, batch, now_ns))

    def keep(self, items: list[tuple[Channel, Batch, int]], oldest: int) -> list[Channel]:
        """Go on with these of the so many oldest batches; the rest of them counts as consumed. Gives their channels."""
        before = list(self.waiting)
        self.waiting = deque(items + before[oldest:])
        left: dict[Channel, int] = {}
        for channel, batch, _ in before[:oldest]:
            left[channel] = left.get(channel, 0) + len(batch.values)
        for channel, batch, _ in items:
            left[channel] -= len(batch.values)
        for channel, count in left.items():
            channel.consume(count)
            self.tuples -= count
        return list(left)

    def put_first(self, items: list[tuple[Channel, Batch, int]]) -> None:
        """Let batches wait in front of all others; they came by other channels and take no room in these."""
        for channel, batch, since_ns in reversed(items):
            channel.stale += len(batch.values)
            self.tuples += len(batch.values)
            self.waiting.appendleft((channel, batch, since_ns))
        self.tuples_most = max(self.tuples_most, self.tuples)

    def leave(self) -> list[tuple[Channel, Batch, int]]:
        """Give up what waits, oldest first."""
        items = list(self.waiting)
        self.waiting.clear()
        self.tuples = 0
        return items

    def adopt(self, channel: Channel, batch: Batch, since_ns: int) -> None:
        """Take over what waits elsewhere; it was counted as received there."""
        self.tuples += len(batch.values)
        self.waiting.append((channel, batch, since_ns))

    def end(self, channel: Channel) -> None:
        """Note that a sender has said that nothing more comes."""
        channel.ended = True

    def take(self, values_max: int) -> tuple[list[Arrival], Batch]:
        """Take the oldest batch, or its first part when it is large, and those behind it that fit in as well.

        What was sent singly while the task was busy is so worked off together. Tells whom it came from and since when.
        """
        channel, batch, since_ns = self.waiting.popleft()
        if len(batch.values) > values_max:
            batch, rest = batch.split(values_max)
            if rest is not None:
                self.waiting.appendleft((channel, rest, since_ns))
        arrivals = [self._left(channel, batch, since_ns)]
        room = values_max - len(batch.values)
        while self.waiting and len(self.waiting[0][1].values) <= room:
            channel, more, since_ns = self.waiting.popleft()
            batch.append(more)
            arrivals.append(self._left(channel, more, since_ns))
            room -= len(more.values)
        return arrivals, batch

    def _left(self, channel: Channel, batch: Batch, since_ns: int) -> Arrival:
        count = len(batch.values)
        self.tuples -= count
        if not channel.at_end:
            channel.consume(count)
        return channel, count, since_ns
