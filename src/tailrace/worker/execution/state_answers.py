"""Answers what the coordinator asks of the states of this worker's tasks, each between two pieces of the task's work.

A task whose work is out in a thread gets no more until the answer is given, so that nobody sees half a change. Owned by
the deployment; the loop's thread calls it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.state.named import user_key
from tailrace.transport import codec
from tailrace.worker.execution.keyed_steps import StatefulStep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.worker.execution.task import Task
    from tailrace.worker.worker_state import WorkerState


class StateAnswers:
    """The questions to one deployment that wait for an answer."""

    def __init__(self, worker: WorkerState, message_bytes_max: int) -> None:
        self._worker = worker
        # An answer is one message of the control connection.
        self._values_bytes_max = message_bytes_max // 2
        self._waiting: list[protocol.AskState] = []

    def ask(self, question: protocol.AskState) -> None:
        """Answer at once, or when the task's work is back."""
        task = self._find(question)
        if task is not None and task.in_flight:
            task.is_read = True
            self._waiting.append(question)
        else:
            self._answer(question, task)

    def returned(self, task: Task) -> None:
        """All work of a task that is to be read is back."""
        task.is_read = False
        waiting, self._waiting = self._waiting, []
        for question in waiting:
            self.ask(question)

    def _find(self, question: protocol.AskState) -> Task | None:
        for task in self._worker.tasks:
            if (task.stage.id, task.index) == (question.stage, question.task):
                return task
        return None

    def _answer(self, question: protocol.AskState, task: Task | None) -> None:
        if task is None:
            self._worker.control_out.append(protocol.StateValues(question.serial, here=False))
            return
        values, reason = b"", ""
        try:
            values = self._values(question, task)
        except Exception as error:  # noqa: BLE001 - values are the user's, and may not be encoded
            reason = f"{type(error).__name__}: {error}"
        if len(values) > self._values_bytes_max:
            reason = f"it takes {len(values):,} bytes, and {self._values_bytes_max:,} are half of frame_bytes_max"
            values = b""
        self._worker.control_out.append(protocol.StateValues(question.serial, here=True, values=values, reason=reason))

    def _values(self, question: protocol.AskState, task: Task) -> bytes:
        step = task.chain.steps[question.operator]
        if not isinstance(step, StatefulStep):
            raise TypeError(f"{question.operator!r} keeps no state by key")
        keys = [codec.loads(question.key)] if question.key else list(islice(_keys(step), question.limit))
        found = [(key, step.shown(key)) for key in keys]
        return codec.dumps([(key, value) for key, value in found if value is not None])


def _keys(step: StatefulStep) -> Iterator[Any]:
    """The user's keys, each once."""
    seen: set[Any] = set()
    for pair in step.state.items():
        entry = pair[0]
        key = user_key(entry)
        if key is entry:
            yield key
        elif key not in seen:
            seen.add(key)
            yield key
