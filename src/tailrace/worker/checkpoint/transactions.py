"""What sinks have prepared for epochs of a checkpoint: published when these are durable, and not before.

A part of a checkpoint names the epochs that its task has prepared and not published, so whoever goes on from it
publishes them, again if need be. Owned by the deployment; the loop's thread calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.worker.blame import call_error

if TYPE_CHECKING:
    from tailrace.worker.execution.task import CommitWork, Task
    from tailrace.worker.worker_state import WorkerState


class Transactions:
    """The transactions of one deployment's sinks."""

    def __init__(self, worker: WorkerState) -> None:
        self._worker = worker
        #: The newest epoch of which the coordinator has yet to hear that it is published here; 0 if there is none.
        self._told_of = 0

    def begin(self, epoch: int) -> None:
        """Tasks were deployed as of an epoch: publish what they had prepared by then, and nothing else ever."""
        for task in self._worker.tasks:
            self._abort(task, epoch + 1)
        self._publish(epoch)

    @staticmethod
    def _abort(task: Task, epoch: int) -> None:
        try:
            task.chain.abort(epoch)
        except Exception as error:
            raise call_error(task.chain.at.operator, task.index, "abort()", error) from error

    def prepare(self, task: Task, epoch: int) -> None:
        """A task is cut: what its sinks have taken in belongs to the epoch."""
        if not task.chain.transactional:
            return
        try:
            # What an earlier epoch left was not made durable if its part was not written.
            task.syncs += task.chain.prepare(epoch)
        except Exception as error:
            raise call_error(task.chain.at.operator, task.index, "prepare()", error) from error
        task.prepared.append(epoch)

    def durable(self, epoch: int) -> None:
        """An epoch is published in the log: now sinks may."""
        self._told_of = epoch
        self._publish(epoch)
        self._tell_if_committed()

    def _publish(self, epoch: int) -> None:
        for task in self._worker.tasks:
            task.durable_epoch = epoch
            if task.commits_due:
                self._worker.enqueue(task)

    def committed(self, work: CommitWork) -> None:
        """A task's sinks have published some epochs."""
        task = work.task
        task.committing = False
        task.prepared = [epoch for epoch in task.prepared if epoch not in work.epochs]
        self._tell_if_committed()

    def _tell_if_committed(self) -> None:
        due = any(task.prepared and task.prepared[0] <= self._told_of for task in self._worker.tasks)
        if self._told_of and not due:
            self._worker.control_out.append(protocol.Committed(self._told_of))
            self._told_of = 0
