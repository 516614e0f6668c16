"""Lets go of what user code holds open when a worker ends without having drained. Called by the brain's ``close``.

A ``close()`` that raises is told, and fails a query that would have ended well: what a sink was to make durable may not
be. A reader has nothing to make durable, so its failure is told only.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tailrace.program.errors import user_stack
from tailrace.worker.snapshots.task_state import stateful

from .blame import call_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.errors import TailraceError
    from tailrace.worker.execution.task import Task


def close_task(task: Task, log: Callable[[int, str, int, str], None], fail: Callable[[TailraceError], None]) -> None:
    """Close the operators of a task that are still open, and its readers."""
    for operator, error in task.chain.release():
        found = call_error(operator, task.index, "close()", error)
        log(logging.ERROR, operator, task.index, f"{found.message}\n{user_stack(error)}")
        fail(found)
    if task.source is None:
        return
    for partition, reader in task.source.readers.items():
        try:
            reader.close()
        except Exception as error:  # noqa: BLE001, PERF203 - a connector's close() may raise anything
            text = f"close() of the reader of partition {partition} failed: {type(error).__name__}: {error}"
            log(logging.WARNING, task.stage.head.name, task.index, text)


def close_states(task: Task) -> None:
    """Let go of what a task's state has on disk: processes of Spark's end without looking for such things."""
    for _, step in stateful(task):
        step.state.close()
