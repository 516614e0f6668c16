"""What a worker tells the coordinator once a second: counters, queue lengths and latencies of its tasks and edges.

Counters are totals since the worker started, histograms cover the time since the last snapshot. Edges beyond a bound
are added up in one row, so that a report stays small however large the topology is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.metrics.histogram import Histogram

if TYPE_CHECKING:
    from tailrace.worker.exchange.outgoing import OutgoingBuffer
    from tailrace.worker.execution.task import Task

#: The row of an edge: edge, sending task, receiving task, tuples, bytes; -1 for tasks whose rows were added up.
_REST = -1


def take_snapshot(tasks: list[Task], outgoing: OutgoingBuffer, edges_max: int) -> dict[str, Any]:
    """Describe all tasks; histograms are handed over and begin again."""
    return {
        "tasks": [_task(task) for task in tasks],
        "edges": _edges(tasks, edges_max),
        "groups": _groups(tasks),
        "sent_bytes": outgoing.sent_bytes,
        "sent_messages": outgoing.sent_messages,
    }


def _edges(tasks: list[Task], edges_max: int) -> list[list[int]]:
    """The busiest task-to-task edges by bytes, and for each edge of the plan the sum of its others."""
    rows = [
        [outlet.edge, task.index, box.task, box.sent_total, box.bytes_sent]
        for task in tasks
        for outlet in task.outlets.values()
        for box in outlet.boxes
        if box.sent_total
    ]
    rows.sort(key=lambda row: (row[4], row[3]), reverse=True)
    rest: dict[int, list[int]] = {}
    for edge, _, _, tuples, sent_bytes in rows[edges_max:]:
        total = rest.setdefault(edge, [edge, _REST, _REST, 0, 0])
        total[3] += tuples
        total[4] += sent_bytes
    return [*rows[:edges_max], *rest.values()]


def _groups(tasks: list[Task]) -> list[list[int]]:
    """Edge, key group and tuples, of the batches that were counted; empty where nobody goes by it."""
    return [
        [outlet.edge, group, count]
        for task in tasks
        for outlet in task.outlets.values()
        for group, count in outlet.counted().items()
    ]


def _task(task: Task) -> dict[str, Any]:
    row: dict[str, Any] = {
        "stage": task.stage.id,
        "task": task.index,
        "mode": task.mode,
        "in": task.tuples_in,
        "out": sum(outlet.tuples for outlet in task.outlets.values()),
        "busy_ns": task.busy_ns,
        "cpu_ns": task.cpu_ns,
        "outbox": sum(len(box.values) for box in task.boxes),
        "outbox_bytes": sum(box.bytes for box in task.boxes),
        "skipped": task.chain.skipped,
        "dead_letters": task.chain.dead_letters,
    }
    if task.inbox is not None:
        shown = task.inbox.tuples if task.group is None or task is task.group.members[0] else 0  # a shared one, once
        row |= {"inbox": shown, "inbox_most": task.inbox.tuples_most, "waited_ns": task.waited_ns}
        row["latency"] = task.latencies.as_dict()
        task.latencies = Histogram()
    if task.deduplicator is not None:
        row |= {"duplicates": task.deduplicator.dropped, "guarded": len(task.deduplicator)}
    if task.source is not None:
        source = task.source
        row |= {
            "read": source.read,
            "pending": len(source.ledger),
            "pending_bytes": source.ledger.bytes,
            "completed": source.ledger.completed,
            "replays": source.ledger.replays,
            "complete": source.latencies.as_dict(),
        }
        if source.replays is not None:
            row["timeout_ns"] = source.replays.timeout_ns
        source.latencies = Histogram()
    return row
