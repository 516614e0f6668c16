"""The outgoing side of a channel: columns that fill up until they are sent, and how many tuples are under way.

A receiver grants a window and tells how many tuples it has taken in all, so what is under way is known without acks per
tuple, and a full receiver holds back exactly the senders that feed it. Pure bookkeeping; the brain does the sending.
"""

from __future__ import annotations

from typing import Any

from tailrace.batch import Batch


class Outbox:
    """Tuples of one task waiting for one destination task."""

    __slots__ = (
        "bytes_sent", "channel", "consumed", "end_sent", "ended", "incs", "lineages", "roots", "sent", "sent_total",
        "serial", "since_ns", "sizes", "slot", "task", "values", "window",
    )  # fmt: skip

    def __init__(self, channel: int, slot: int, task: int, window: int) -> None:
        self.channel = channel
        self.slot = slot
        self.task = task
        self.window = window
        self.values: list[Any] = []
        self.sizes: list[int] = []
        self.roots: list[int] = []
        self.incs: list[int] = []
        self.lineages: list[int] = []
        self.since_ns = 0
        self.bytes_sent = 0
        self.sent_total = 0
        self.ended = False
        self.reset()

    def reset(self) -> None:
        """Begin anew with a receiver that knows nothing of this channel; what waits here is still to be sent."""
        self.sent = 0
        self.consumed = 0
        self.serial = 0
        self.end_sent = False

    @property
    def room(self) -> int:
        """How many tuples the receiver has room for."""
        return self.window - (self.sent - self.consumed)

    def take(self, values_max: int) -> Batch:
        """Take out about as many tuples as asked for, whole bundles, at least one."""
        sizes = None if len(self.values) == len(self.lineages) or not self.lineages else self.sizes
        whole = Batch(self.values, sizes, self.roots, self.incs, self.lineages)
        first, rest = whole.split(values_max)
        if rest is None:
            self.values, self.sizes, self.roots, self.incs, self.lineages = [], [], [], [], []
        else:
            self.sizes = [1] * rest.bundles if rest.sizes is None else rest.sizes
            self.values, self.roots, self.incs, self.lineages = rest.values, rest.roots, rest.incs, rest.lineages
        self.sent += len(first)
        self.sent_total += len(first)
        self.serial += 1
        return first
