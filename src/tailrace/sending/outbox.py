"""The outgoing side of a channel: columns that fill up until they are sent, and how many tuples are under way.

A receiver grants a window and tells how many tuples it has taken in all, so what is under way is known without acks per
tuple, and a full receiver holds back exactly the senders that feed it. Pure bookkeeping; the brain does the sending.

The window has a second bound, in bytes. A batch is *heavy* when its values are so large that a window full of such
tuples would take more than that; the sender remembers the bytes of each heavy batch until its tuples are credited, and
sends none while they add up to the bound. Light batches stay within it by the count of tuples alone, so the window
never holds more than twice its bytes and one batch. Where one is heavy the sender is ``prompt``: the receiver then
credits whatever it takes, since a sender that waits for bytes must not wait for a quarter of the window in tuples.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace.batch import Batch, numbers
from tailrace.hot import weigh

if TYPE_CHECKING:
    from collections.abc import Callable

#: The window of a channel in bytes where nobody says otherwise.
WINDOW_BYTES = 8 * 1024 * 1024


class Outbox:
    """Tuples of one task waiting for one destination task."""

    __slots__ = (
        "_bytes",
        "_heavy",
        "_light_bytes",
        "_weighed",
        "bytes_sent",
        "channel",
        "channel_epoch",
        "consumed",
        "end_sent",
        "ended",
        "finished",
        "heads",
        "heavy_bytes",
        "paused",
        "prompt",
        "sent",
        "sent_total",
        "since_ns",
        "sizes",
        "slot",
        "taken",
        "task",
        "values",
        "window",
        "window_bytes",
    )  # fmt: skip

    def __init__(self, channel: int, slot: int, task: int, window: int, window_bytes: int = WINDOW_BYTES) -> None:
        self.channel = channel
        self.slot = slot
        self.task = task
        self.window = window
        self.window_bytes = window_bytes
        #: What a tuple may take in a batch that is not heavy.
        self._light_bytes = max(1, window_bytes // window)
        #: Bytes of what waits here, as far as it was weighed: so many values.
        self._bytes = 0
        self._weighed = 0
        #: Whether the receiver was told to credit everything at once.
        self.prompt = False
        #: Heavy batches under way: up to which tuple, and their bytes; and the sum of those.
        self._heavy: deque[tuple[int, int]] = deque()
        self.heavy_bytes = 0
        self.values: list[Any] = []
        self.sizes: list[int] = []
        self.heads = numbers()
        self.since_ns = 0
        self.bytes_sent = 0
        self.sent_total = 0
        #: Tuples of the batch that was taken last: bundles go whole, so it may reach beyond the window.
        self.taken = 0
        self.ended = False
        #: Whether nothing may be sent because the task at either end is being moved.
        self.paused = False
        #: Told the task and how many tuples more it has finished, where the edge's rule goes by that.
        self.finished: Callable[[int, int], None] | None = None
        self.sent = self.consumed = 0
        self.reset()

    def reset(self, channel_epoch: int = 0) -> None:
        """Begin again with a receiver that knows nothing of this channel; what waits here is still to be sent.

        Counts of the receiver that belong to another ``channel_epoch`` of the channel do not hold any more.
        """
        self.channel_epoch = channel_epoch
        self.credited(self.sent)  # what was under way is gone
        self._heavy.clear()
        self.heavy_bytes = 0
        self.prompt = False
        self.sent = 0
        self.consumed = 0
        self.end_sent = False

    def credited(self, consumed: int) -> None:
        """Take the receiver's word on how many tuples it has consumed in all."""
        if self.finished is not None and consumed != self.consumed:
            self.finished(self.task, consumed - self.consumed)
        self.consumed = consumed
        while self._heavy and self._heavy[0][0] <= consumed:
            self.heavy_bytes -= self._heavy.popleft()[1]

    @property
    def room(self) -> int:
        """How many tuples the receiver has room for."""
        return 0 if self.heavy_bytes >= self.window_bytes else self.window - (self.sent - self.consumed)

    @property
    def bytes(self) -> int:
        """What the values that wait here take in memory, about."""
        count = len(self.values)
        if self._weighed != count:
            if self._weighed > count:  # others were put in their place
                self._bytes = self._weighed = 0
            self._bytes += weigh(self.values, self._weighed)
            self._weighed = count
        return self._bytes

    def put(self, batch: Batch) -> None:
        """Let a whole batch wait."""
        self.values += batch.values
        self.heads += batch.heads
        if batch.heads:
            self.sizes += [1] * len(batch.values) if batch.sizes is None else batch.sizes

    def clear(self) -> None:
        """Forget what waits."""
        self.values, self.sizes, self.heads = [], [], numbers()
        self._bytes = self._weighed = 0

    def take(self, values_max: int) -> Batch:
        """Take out about as many tuples as asked for and as there are bytes for: whole bundles, at least one."""
        waiting_bytes, room_bytes = self.bytes, self.window_bytes - self.heavy_bytes
        if waiting_bytes > room_bytes:
            values_max = max(1, min(values_max, len(self.values) * room_bytes // waiting_bytes))
        sizes = None if len(self.values) == len(self.sizes) or not self.sizes else self.sizes
        first = Batch(self.values, sizes, self.heads)
        rest = None
        if len(self.values) > values_max:
            first, rest = first.split(values_max)
        taken_bytes = waiting_bytes
        if rest is None:
            self.clear()
        else:
            if self.sizes:
                self.sizes = [1] * rest.bundles if rest.sizes is None else rest.sizes
            self.values, self.heads = rest.values, rest.heads
            taken_bytes = weigh(first.values, 0)
            # A value that was changed since it was weighed may have become larger than all were.
            self._bytes, self._weighed = max(0, waiting_bytes - taken_bytes), len(self.values)
        count = len(first.values)
        self.sent += count
        self.sent_total += count
        self.taken = count
        if taken_bytes > count * self._light_bytes:
            self._heavy.append((self.sent, taken_bytes))
            self.heavy_bytes += taken_bytes
        return first
