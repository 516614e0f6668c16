"""The inbox that several tasks take from: the runtime's batches in a ``Shared`` queue, the one the simulator runs too.

Like ``Inbox`` towards the brain. A claim is known by the list of its arrivals, which lives as long as the work on it.
The end of a channel may not overtake data: it stands in the queue behind the channel's tuples and passes once, when all
that came before it is done. Items that may overtake never come here. Pure bookkeeping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.batch import Batch
from tailrace.items import End

from .shared import InBand, Shared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .inbox import Arrival, Channel

#: A batch with its channel and time of arrival.
Waiting = tuple["Channel", Batch, int]


class SharedInbox:
    """Batches waiting for whichever task of a group is free."""

    def __init__(self, channels: dict[int, Channel]) -> None:
        self.channels = channels
        self.tuples = 0
        self.tuples_most = 0
        self._queue: Shared[Waiting] = Shared()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def waiting(self) -> bool:
        """Whether a batch may be taken now: ends that wait for claims hold back what is behind them."""
        item = self._queue.oldest
        return item is not None and not isinstance(item, InBand)

    @property
    def ended(self) -> bool:
        """Whether every sender's end has passed and nothing came since."""
        return not len(self._queue) and all(channel.ended for channel in self.channels.values())

    @property
    def has_more(self) -> bool:
        """Whether a task of the group has more to do: batches that wait, or its end."""
        return self.waiting or self.ended

    def put(self, channel: Channel, batch: Batch, now_ns: int) -> None:
        """Let a batch wait."""
        count = len(batch.values)
        channel.received += count
        self._enter(channel, batch, now_ns)

    def _enter(self, channel: Channel, batch: Batch, since_ns: int) -> None:
        self.tuples += len(batch.values)
        self.tuples_most = max(self.tuples_most, self.tuples)
        self._queue.put((channel, batch, since_ns))

    def end(self, channel: Channel) -> None:
        """Let a sender's end wait behind all that is there."""
        channel.ending = end = InBand(channel, End())
        self._queue.put(end)
        self._pass_ends()

    def take(self, values_max: int) -> tuple[list[Arrival], Batch]:
        """Claim the oldest batch, or its first part when it is large, and those behind it that fit in as well."""
        arrivals: list[Arrival] = []
        channel, batch, since_ns = self._claim(arrivals)
        if len(batch.values) > values_max:
            first, rest = batch.split(values_max)
            if rest is not None:
                self._queue.cut(id(arrivals), (channel, first, since_ns), (channel, rest, since_ns))
            batch = first
        self._left(arrivals, channel, batch, since_ns)
        room = values_max - len(batch.values)
        if self._fits(room):
            # A claim may have to go back as it was, so what it is worked on with grows in a copy.
            batch = Batch(list(batch.values), batch.sizes and list(batch.sizes), batch.heads[:])
        while self._fits(room):
            channel, more, since_ns = self._claim(arrivals)
            batch.append(more)
            self._left(arrivals, channel, more, since_ns)
            room -= len(more.values)
        return arrivals, batch

    def _claim(self, arrivals: list[Arrival]) -> Waiting:
        item = self._queue.claim(id(arrivals))
        assert isinstance(item, tuple)  # noqa: S101 - asked for only while ``waiting``
        return item

    def _fits(self, room: int) -> bool:
        item = self._queue.oldest
        return item is not None and not isinstance(item, InBand) and len(item[1].values) <= room

    def _left(self, arrivals: list[Arrival], channel: Channel, batch: Batch, since_ns: int) -> None:
        count = len(batch.values)
        self.tuples -= count
        if not channel.at_end:
            channel.consume(count)
        arrivals.append((channel, count, since_ns))

    def done(self, arrivals: list[Arrival]) -> bool:
        """The work on a claim is done; true when an end has passed because of that."""
        self._queue.done(id(arrivals))
        return self._pass_ends()

    def release(self, arrivals: list[Arrival]) -> None:
        """Whoever worked on a claim is gone: what was claimed waits again, in front of all."""
        if self._queue.release(id(arrivals)):
            for channel, count, _ in arrivals:
                self.tuples += count
                if not channel.at_end:
                    channel.unconsume(count)

    def _pass_ends(self) -> bool:
        passed = False
        while isinstance(self._queue.oldest, InBand):
            end = self._queue.claim(0)
            assert isinstance(end, InBand)  # noqa: S101 - ``oldest`` says so
            _pass(end)
            passed = True
        return passed

    # -- changing over at run time ---------------------------------------------------------------------------------

    def adopt(self, items: Iterable[Waiting]) -> None:
        """Take over what waits elsewhere, in order of arrival; it was counted as received there."""
        for channel, batch, since_ns in sorted(items, key=lambda item: item[2]):
            self._enter(channel, batch, since_ns)

    def leave(self) -> list[Waiting]:
        """Give up what waits, oldest first; ends are noted, since each task's own inbox heeds what is before them."""
        items: list[Waiting] = []
        for item in self._queue.drain():
            if isinstance(item, InBand):
                _pass(item)
            else:
                items.append(item)
        self.tuples = 0
        return items


def _pass(end: InBand) -> None:
    """Let an end pass; where the channel has begun again since, it was the old sender's and says nothing."""
    if end.channel.ending is end:
        end.channel.ended = True
