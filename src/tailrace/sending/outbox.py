"""The outgoing side of a channel: columns that fill up until they are sent, and how many tuples are under way.

A receiver grants a window and tells how many tuples it has taken in all, so what is under way is known without acks per
tuple, and a full receiver holds back exactly the senders that feed it. Pure bookkeeping; the brain does the sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.batch import Batch, numbers

if TYPE_CHECKING:
    from collections.abc import Callable


class Outbox:
    """Tuples of one task waiting for one destination task."""

    __slots__ = (
        "bytes_sent", "channel", "consumed", "end_sent", "ended", "era", "finished", "heads", "paused", "sent",
        "sent_total", "serial", "since_ns", "sizes", "slot", "task", "values", "window",
    )  # fmt: skip

    def __init__(self, channel: int, slot: int, task: int, window: int) -> None:
        self.channel = channel
        self.slot = slot
        self.task = task
        self.window = window
        self.values: list[Any] = []
        self.sizes: list[int] = []
        self.heads = numbers()
        self.since_ns = 0
        self.bytes_sent = 0
        self.sent_total = 0
        self.ended = False
        #: Whether nothing may be sent because the task at either end is being moved.
        self.paused = False
        #: Told the task and how many tuples more it has finished, where the edge's rule goes by that.
        self.finished: Callable[[int, int], None] | None = None
        self.sent = self.consumed = 0
        self.reset()

    def reset(self, era: int = 0) -> None:
        """Begin anew with a receiver that knows nothing of this channel; what waits here is still to be sent.

        Counts of the receiver that belong to another ``era`` of the channel do not hold any more.
        """
        self.era = era
        self.credited(self.sent)  # what was under way is gone
        self.sent = 0
        self.consumed = 0
        self.serial = 0
        self.end_sent = False

    def credited(self, consumed: int) -> None:
        """Take the receiver's word on how many tuples it has consumed in all."""
        if self.finished is not None and consumed != self.consumed:
            self.finished(self.task, consumed - self.consumed)
        self.consumed = consumed

    @property
    def room(self) -> int:
        """How many tuples the receiver has room for."""
        return self.window - (self.sent - self.consumed)

    def put(self, batch: Batch) -> None:
        """Let a whole batch wait."""
        self.values += batch.values
        self.heads += batch.heads
        if batch.heads:
            self.sizes += [1] * len(batch.values) if batch.sizes is None else batch.sizes

    def clear(self) -> None:
        """Forget what waits."""
        self.values, self.sizes, self.heads = [], [], numbers()

    def take(self, values_max: int) -> Batch:
        """Take out about as many tuples as asked for, whole bundles, at least one."""
        sizes = None if len(self.values) == len(self.sizes) or not self.sizes else self.sizes
        first = Batch(self.values, sizes, self.heads)
        rest = None
        if len(self.values) > values_max:
            first, rest = first.split(values_max)
        if rest is None:
            self.values, self.sizes, self.heads = [], [], numbers()
        else:
            if self.sizes:
                self.sizes = [1] * rest.bundles if rest.sizes is None else rest.sizes
            self.values, self.heads = rest.values, rest.heads
        count = len(first.values)
        self.sent += count
        self.sent_total += count
        self.serial += 1
        return first
