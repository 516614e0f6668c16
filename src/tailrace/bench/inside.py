"""What a bench must know of a running query that its user need not: its processes, its placement, its histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.metrics.histogram import Histogram
from tailrace.routing.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.coordinator.query import Query


def worker_pids(query: Query) -> list[int]:
    """The processes of the workers."""
    return [member.register.pid for member in query._brain.members.values()]  # noqa: SLF001


def latency_so_far(query: Query) -> Histogram:
    """A copy of the histogram of all complete latencies."""
    total = query._brain.book.latency_total  # noqa: SLF001
    return Histogram(total.counts, total.most, total.total)


def since(before: Histogram, now: Histogram) -> Histogram:
    """What has come between two copies; its maximum is that of the whole run."""
    counts = {bucket: count - before.counts.get(bucket, 0) for bucket, count in now.counts.items()}
    return Histogram({bucket: count for bucket, count in counts.items() if count}, now.most, now.total - before.total)


def crossing_share(placement: Sequence[Sequence[int]], src: int, dst: int, weights: Sequence[float]) -> float:
    """Share of an edge's tuples that go to another worker.

    Every task of stage ``src`` sends alike; ``weights`` are the shares that the tasks of stage ``dst`` get.
    """
    senders, receivers = placement[src], placement[dst]
    crossing = sum(
        weight for sender in senders for receiver, weight in zip(receivers, weights, strict=True) if sender != receiver
    )
    return crossing / (len(senders) * sum(weights))


def words_crossing(query: Query, words: list[str]) -> float:
    """Share of the words of a word count that go from one worker to another, by placement and key hash."""
    program = query._program  # noqa: SLF001
    by_head = {stage.head.name: stage for stage in program.plan.stages}
    split, count = by_head["split"], by_head["count"]
    chosen = Fields(None, count.tasks, program.settings.key_groups).choose(words, None)  # type: ignore[arg-type]
    weights = [float(sum(task == at for task in chosen)) for at in range(count.tasks)]
    return crossing_share(query._brain.placement, split.id, count.id, weights)  # noqa: SLF001
