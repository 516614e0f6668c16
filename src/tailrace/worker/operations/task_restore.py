"""A task that comes from another worker, built again from its parcel. Part of ``operations.task_move``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.worker.blame import call_error
from tailrace.worker.build import build_task
from tailrace.worker.operations.channel_control import channel_epoch_of
from tailrace.worker.snapshots.task_snapshot import install, low_water, unpack

if TYPE_CHECKING:
    from tailrace.worker.build import Site
    from tailrace.worker.execution.task import Task
    from tailrace.worker.operations.task_move import Move, TaskMoveParticipant
    from tailrace.worker.worker_state import WorkerState


def rebuilt(data: bytes, move: Move, plan: TaskMoveParticipant, worker: WorkerState, site: Site) -> Task:
    """Build a task again, open it and let it go on where it stopped; it sends and reads nothing yet."""
    parcel = unpack(data)
    placement = [list(row) for row in site.placement]
    for each in plan.moves.values():
        placement[each.stage][each.task] = each.new
    low = low_water(parcel)
    partitions = [[*row[:-1], low.get(row[0], row[-1])] for row in site.partitions]
    there = replace(site, placement=placement, partitions=partitions)
    task = build_task(worker.program, there, worker.program.plan.stages[move.stage], move.task)
    try:
        task.chain.open(ended=parcel.snapshot.closed)
    except Exception as error:
        raise call_error(task.chain.at.operator, task.index, "open()", error) from error
    install(task, parcel, worker.clock.now_ns())
    worker.driver.restore(task, parcel.driver_next, [])
    channel_epoch = channel_epoch_of(plan.epoch)
    for channel in task.inbox.channels.values() if task.inbox is not None else ():
        channel.channel_epoch = channel_epoch
    for box in task.boxes:
        box.paused, box.channel_epoch = True, channel_epoch
    if task.source is not None:
        task.source.paused = True
    return task
