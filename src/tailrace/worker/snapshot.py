"""What a worker tells the coordinator once a second: counters and queue lengths of its tasks, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .post import PostOffice
    from .task import Task


def take_snapshot(tasks: list[Task], post: PostOffice) -> dict[str, Any]:
    """Describe all tasks; histograms are handed over and begin anew."""
    return {
        "tasks": [_task(task) for task in tasks],
        "sent_bytes": post.sent_bytes,
        "sent_messages": post.sent_messages,
    }


def _task(task: Task) -> dict[str, Any]:
    row: dict[str, Any] = {
        "stage": task.stage.id,
        "operators": [spec.name for spec in task.stage.operators],
        "task": task.index,
        "mode": task.mode,
        "in": task.tuples_in,
        "out": sum(outlet.tuples for outlet in task.outlets.values()),
        "busy_ns": task.busy_ns,
        "outbox": sum(len(box.values) for box in task.boxes),
        "skipped": task.chain.skipped,
    }
    if task.inbox is not None:
        row |= {"inbox": task.inbox.tuples, "inbox_most": task.inbox.tuples_most, "waited_ns": task.waited_ns}
    if task.guard is not None:
        row |= {"duplicates": task.guard.dropped, "guarded": len(task.guard)}
    if task.source is not None:
        source = task.source
        row |= {
            "read": source.read,
            "pending": len(source.ledger),
            "completed": source.ledger.completed,
            "replays": source.ledger.replays,
            "latency": {
                "counts": source.latencies.counts, "most": source.latencies.most, "total": source.latencies.total
            },
        }  # fmt: skip
        source.latencies = type(source.latencies)()
    return row
