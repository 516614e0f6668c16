"""A task as bytes, on its way from one worker to another: its state, and its queues and counters.

``pack`` is called by the worker that lets a task go, when no piece of its work is out; ``unpack`` and ``install`` by
the one that builds the task again. Touches nothing but the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.state import snapshot
from tailrace.worker.snapshots import queues, task_state
from tailrace.worker.snapshots.transit import TaskParcel

if TYPE_CHECKING:
    from tailrace.worker.execution.task import Task


def pack(task: Task, now_ns: int, driver_next: dict[str, int]) -> bytes:
    """Describe a task that stands still; it stays as it is, in case the move is undone.

    What sinks have prepared is made durable here: the new place could not, and only after a failed epoch is there any.
    """
    for sync in task.syncs:
        sync()
    return snapshot.encode(TaskParcel(task_state.take(task), queues.transit_of(task, now_ns), driver_next))


def unpack(data: bytes) -> TaskParcel:
    """Read what ``pack`` wrote; users' values stay encoded."""
    return snapshot.decode(data, TaskParcel)


def low_water(parcel: TaskParcel) -> dict[int, int]:
    """Where the readers of a source begin at the new place."""
    source = parcel.snapshot.source
    return {} if source is None else source.low_water


def install(task: Task, parcel: TaskParcel, now_ns: int) -> None:
    """Let a task that was built again, and opened unless it was closed, go on where the other one stopped."""
    task_state.restore(task, parcel.snapshot)
    queues.resume(task, parcel.transit, now_ns)
