"""What only a move takes along with a task: queues, counters, how far its source has come.

``queues`` fills these in and reads them; a checkpoint has none of it. Times travel as ages: two workers share no clock.
"""

from __future__ import annotations

import msgspec

from tailrace.state.snapshot import TaskSnapshot  # noqa: TC001 - msgspec reads the fields' types


class HistogramCounts(msgspec.Struct, frozen=True):
    """A histogram of latencies."""

    counts: dict[int, int]
    most: int
    total: int


class TaskCounters(msgspec.Struct, frozen=True):
    """What a task has counted, and what it knows of its cost."""

    tuples_in: int
    busy_ns: int
    waited_ns: int
    sampled_ns: int
    sampled_tuples: int
    cost_ns: float
    turn_values: int


class StepCounters(msgspec.Struct, frozen=True):
    """What an operator has left out."""

    skipped: int
    dead_letters: int


class WaitingBatch(msgspec.Struct, frozen=True):
    """A batch in an inbox: by which channel it came, how long ago."""

    channel: int
    batch: bytes
    age_ns: int


class OutboxTransit(msgspec.Struct, frozen=True):
    """What waits to be sent on a channel, empty if nothing does."""

    channel: int
    batch: bytes
    ended: bool
    sent_total: int
    bytes_sent: int


class SourceTransit(msgspec.Struct, frozen=True):
    """What a source task has counted, and the incarnation that its roots begin with."""

    base_inc: int
    completed: int
    replays: int
    read: int
    draining: bool
    latencies: HistogramCounts


class TaskTransit(msgspec.Struct, frozen=True):
    """Queues and counters of a task that stands still."""

    mode: str
    counters: TaskCounters
    steps: dict[str, StepCounters]
    latencies: HistogramCounts
    #: Tuples sent, per edge.
    sent: dict[int, int]
    boxes: list[OutboxTransit]
    #: Channels whose senders have said that nothing more comes.
    ended: list[int]
    waiting: list[WaitingBatch]
    #: Duplicates that were dropped.
    dropped: int
    source: SourceTransit | None
    #: Epochs that its sinks have prepared and not published, and the newest that is durable.
    prepared: list[int]
    durable_epoch: int


class TaskParcel(msgspec.Struct, frozen=True):
    """A task on its way to another worker."""

    snapshot: TaskSnapshot
    transit: TaskTransit
    #: Per operator the number of its next message to the driver, which has taken all before.
    driver_next: dict[str, int] = {}


class KeyGroupParcel(msgspec.Struct, frozen=True):
    """Some key groups on their way to another task: their part of its state, and what waits for them."""

    snapshot: TaskSnapshot
    waiting: list[WaitingBatch]
