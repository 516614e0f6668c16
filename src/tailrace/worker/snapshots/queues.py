"""What waits in front of a task and behind it, and what it has counted, on its way to another worker.

Called by ``task_snapshot`` at both ends of a move. Touches nothing but the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.batch import Batch
from tailrace.metrics.histogram import Histogram
from tailrace.receiving.inbox import Inbox
from tailrace.transport import codec
from tailrace.worker.snapshots.transit import (
    HistogramCounts,
    OutboxTransit,
    SourceTransit,
    StepCounters,
    TaskTransit,
    WaitingBatch,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.receiving.inbox import Channel
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.execution.task import SourceSide, Task


def transit_of(task: Task, now_ns: int) -> TaskTransit:
    """Describe the queues and counters of a task that stands still."""
    inbox = task.inbox if isinstance(task.inbox, Inbox) else None  # tasks that take from a shared one do not move
    return TaskTransit(
        mode=task.mode,
        counters=task.counters(),
        steps={name: StepCounters(step.skipped, step.dead_letters) for name, step in task.chain.steps.items()},
        latencies=_counts(task.latencies),
        sent={edge: outlet.tuples for edge, outlet in task.outlets.items()},
        boxes=[_outbox(box) for box in task.boxes],
        ended=[] if inbox is None else [channel.id for channel in inbox.channels.values() if channel.ended],
        waiting=[] if inbox is None else waiting_batches(inbox.waiting, now_ns),
        dropped=0 if task.deduplicator is None else task.deduplicator.dropped,
        source=None if task.source is None else _source(task.source),
        prepared=task.prepared,
        durable_epoch=task.durable_epoch,
    )


def resume(task: Task, transit: TaskTransit, now_ns: int) -> None:
    """Let a task that was built again go on with the queues and counters of the other one."""
    for name, counted in transit.steps.items():
        step = task.chain.steps[name]
        step.skipped, step.dead_letters = counted.skipped, counted.dead_letters
    task.count_on(transit.counters)
    task.prepared, task.durable_epoch = list(transit.prepared), transit.durable_epoch
    if task.mode == "inline":
        task.mode = transit.mode  # type: ignore[assignment] # it has shown that it blocks
    task.latencies = _histogram(transit.latencies)
    for edge, tuples in transit.sent.items():
        task.outlets[edge].tuples = tuples
    _resume_boxes(task, transit)
    _resume_inbox(task, transit, now_ns)
    if task.deduplicator is not None:
        task.deduplicator.dropped = transit.dropped
    if task.source is not None and transit.source is not None:
        _resume_source(task.source, transit.source)


def waiting_batches(waiting: Iterable[tuple[Channel, Batch, int]], now_ns: int) -> list[WaitingBatch]:
    """Describe batches of an inbox."""
    return [
        WaitingBatch(channel.id, codec.encode_batch(batch), now_ns - since_ns) for channel, batch, since_ns in waiting
    ]


def batch_of(waiting: WaitingBatch) -> Batch:
    """Make the batch again."""
    return codec.decode_batch(memoryview(waiting.batch))


def _counts(histogram: Histogram) -> HistogramCounts:
    return HistogramCounts(dict(histogram.counts), histogram.most, histogram.total)


def _histogram(counts: HistogramCounts) -> Histogram:
    return Histogram(counts.counts, counts.most, counts.total)


def _outbox(box: Outbox) -> OutboxTransit:
    batch = codec.encode_batch(Batch(box.values, box.sizes, box.heads)) if box.values else b""
    return OutboxTransit(box.channel, batch, box.ended, box.sent_total, box.bytes_sent)


def _resume_boxes(task: Task, transit: TaskTransit) -> None:
    boxes = {box.channel: box for box in task.boxes}
    for each in transit.boxes:
        box = boxes[each.channel]
        box.ended, box.sent_total, box.bytes_sent = each.ended, each.sent_total, each.bytes_sent
        if each.batch:
            box.put(codec.decode_batch(memoryview(each.batch)))


def _resume_inbox(task: Task, transit: TaskTransit, now_ns: int) -> None:
    if task.inbox is None:
        return
    for number in transit.ended:
        task.inbox.channels[number].ended = True
    for each in transit.waiting:
        channel, batch = task.inbox.channels[each.channel], batch_of(each)
        task.inbox.put(channel, batch, now_ns - each.age_ns)
        # It came under the counts of the old place; in those of the new one it takes no room.
        channel.received -= len(batch)
        channel.stale += len(batch)


def _source(side: SourceSide) -> SourceTransit:
    ledger = side.ledger
    return SourceTransit(
        ledger.base_inc, ledger.completed, ledger.replays, side.read, side.draining, _counts(side.latencies)
    )


def _resume_source(side: SourceSide, source: SourceTransit) -> None:
    ledger = side.ledger
    # Never below what this source has used: acks of an earlier opening may still be under way.
    ledger.base_inc = max(ledger.base_inc, source.base_inc)
    ledger.completed, ledger.replays = source.completed, source.replays
    side.read, side.draining = source.read, side.draining or source.draining
    side.latencies = _histogram(source.latencies)
