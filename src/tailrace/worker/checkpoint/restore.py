"""A task that goes on from a cut: by what its predecessor in this worker went back to, by a shadow, or from a store.

Called while a deployment is built, for tasks that are built and opened and have seen nothing yet. Blocking where it
reads from a store, which is when the worker has nothing else to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.checkpoint.errors import CheckpointCorruptError
from tailrace.checkpoint.keyed import delta_of
from tailrace.checkpoint.part import decode_part
from tailrace.transport import codec
from tailrace.worker.snapshots import task_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.checkpoint.part import TaskPart
    from tailrace.worker.checkpoint.cutter import KeptCut
    from tailrace.worker.checkpoint.shadows import Shadow
    from tailrace.worker.execution.task import Task
    from tailrace.worker.worker_state import WorkerState


def restore_from_memory(task: Task, kept: KeptCut, epoch: int, worker: WorkerState) -> TaskPart | None:
    """Let a task go on with the keyed state of the one before it, which goes back to the cut; None if it cannot.

    A predecessor whose user code still runs somewhere may change its state under our hands.
    """
    before, part = kept.tasks.get((task.stage.id, task.index), (None, None))
    if before is None or part is None or before.in_flight:
        return None
    steps = dict(task_state.stateful(task))
    for name, step in task_state.stateful(before):
        step.state.rollback(epoch)
        steps[name].state = step.state
    _resume(task, part, worker)
    return part


def restore_from_store(
    task: Task,
    objects: list[str],
    get: Callable[[str], bytes],
    worker: WorkerState,
    shadow: Shadow | None = None,
) -> TaskPart | None:
    """Put a task's state together from its parts, oldest first; those that a shadow has taken in need no reading."""
    part: TaskPart | None = None
    held = 0
    if shadow is not None:
        part, held = shadow.part, len(shadow.objects)
        for operator, step in task_state.stateful(task):
            step.state = shadow.states[operator]
    for name in objects[held:]:
        part = _part_of(task, get(name), name)
        for operator, step in task_state.stateful(task):
            for keyed in part.snapshot.operators[operator].keyed:
                step.state.apply(delta_of(keyed))
    if part is not None:
        _resume(task, part, worker)
    return part


def _part_of(task: Task, data: bytes, name: str) -> TaskPart:
    for part in decode_part(data, name).tasks:
        if (part.snapshot.stage, part.snapshot.task) == (task.stage.id, task.index):
            return part
    raise CheckpointCorruptError(
        f"{name} has nothing of task {task.index} of {task.stage.head.name!r}, which the manifest says it has.",
        "Was the checkpoint put together from two?",
    )


def _resume(task: Task, part: TaskPart, worker: WorkerState) -> None:
    """Take in all but the keyed state, and send again what no source could."""
    task_state.restore_unkeyed(task, part.snapshot)
    if task.deduplicator is not None:
        task.deduplicator.expect_replays()
    task.finished = part.finished
    task.prepared = list(part.prepared)
    if part.finished:
        task.next_tick_ns = None
    if task.own is not None:
        task.own.restore(part.own_next, codec.loads(part.own) if part.own else [])
        task.own.send_again(task.outlets, worker.clock.now_ns())
        worker.mark_dirty(task)
    worker.driver.restore(task, part.driver_next, part.driver)


def no_store(name: str) -> bytes:
    """Stand in for a store where the query has none."""
    raise CheckpointCorruptError(f"{name} was asked for, and this worker knows no store.", "Was it started with one?")
