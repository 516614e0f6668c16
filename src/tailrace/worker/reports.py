"""Makes the rows of a worker's report: counters, queue lengths and latencies of its tasks and edges.

Called by the reporter once a second. Edges beyond a bound are added up in one row, so that a report stays small however
large the topology is. Latencies are handed over and begin again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.metrics.histogram import Histogram
from tailrace.reports import REST, EdgeReport, KeyGroupReport, LatencyReport, TaskReport

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.worker.execution.task import Task
    from tailrace.worker.uplink.queue import Queue


def edge_reports(tasks: Iterable[Task], edges_max: int) -> tuple[EdgeReport, ...]:
    """The busiest task-to-task edges by bytes, and for each edge of the plan the sum of its others."""
    rows = [
        EdgeReport(outlet.edge, task.index, box.task, box.sent_total, box.bytes_sent)
        for task in tasks
        for outlet in task.outlets.values()
        for box in outlet.boxes
        if box.sent_total
    ]
    rows.sort(key=lambda row: (row.bytes, row.tuples), reverse=True)
    rest: dict[int, tuple[int, int]] = {}
    for row in rows[edges_max:]:
        tuples, sent_bytes = rest.get(row.edge, (0, 0))
        rest[row.edge] = tuples + row.tuples, sent_bytes + row.bytes
    return (*rows[:edges_max], *(EdgeReport(edge, REST, REST, *total) for edge, total in rest.items()))


def key_group_reports(tasks: Iterable[Task]) -> tuple[KeyGroupReport, ...]:
    """The batches that were counted per key group; empty where nobody goes by it."""
    return tuple(
        KeyGroupReport(outlet.edge, group, count)
        for task in tasks
        for outlet in task.outlets.values()
        for group, count in outlet.counted().items()
    )


def task_report(task: Task, uplink: Queue | None) -> TaskReport:
    """One task as it stands; ``uplink`` is its queue in front of a limited uplink."""
    inbox, source, latency, complete = task.inbox, task.source, None, None
    if inbox is not None:
        latency, task.latencies = _handed_over(task.latencies), Histogram()
    if source is not None:
        complete, source.latencies = _handed_over(source.latencies), Histogram()
    waits_here = task.group is None or task is task.group.members[0]  # a shared inbox counts once
    ledger = None if source is None else source.ledger
    return TaskReport(
        stage=task.stage.id,
        task=task.index,
        mode=task.mode,
        tuples_in=task.tuples_in,
        tuples_out=sum(outlet.tuples for outlet in task.outlets.values()),
        busy_ns=task.busy_ns,
        cpu_ns=task.cpu_ns,
        waited_ns=0 if inbox is None else task.waited_ns,
        skipped=task.chain.skipped,
        dead_letters=task.chain.dead_letters,
        duplicates=0 if task.deduplicator is None else task.deduplicator.dropped,
        read=0 if source is None else source.read,
        completed=0 if ledger is None else ledger.completed,
        replays=0 if ledger is None else ledger.replays,
        inbox=inbox.tuples if inbox is not None and waits_here else 0,
        inbox_most=0 if inbox is None else inbox.tuples_most,
        outbox=sum(len(box.values) for box in task.boxes),
        outbox_bytes=sum(box.bytes for box in task.boxes),
        pending=0 if ledger is None else len(ledger),
        pending_bytes=0 if ledger is None else ledger.bytes,
        latency=latency,
        complete=complete,
        timeout_ns=None if source is None or source.replays is None else source.replays.timeout_ns,
        uplink=None if uplink is None else uplink.tuples,
        uplink_most=0 if uplink is None else uplink.read_most(),
    )


def _handed_over(histogram: Histogram) -> LatencyReport:
    return LatencyReport(histogram.counts, histogram.most, histogram.total)
