"""When a worker looks for late roots of its sources, and sends those again that the replay policy asks for.

Part of the brain: asked by ``on_time``, and by the loop how long it may sleep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.worker.execution.completion import Completion
    from tailrace.worker.execution.own_roots import OwnRoots
    from tailrace.worker.execution.task import SourceSide, Task
    from tailrace.worker.worker_state import WorkerState

_NEVER_NS = 1 << 62


class ReplayTimer:
    """The sources of a worker that send what is late again."""

    def __init__(self, worker: WorkerState, completion: Completion) -> None:
        self._completion = completion
        self._worker = worker
        self._outbox_tuples = worker.program.settings.outbox_tuples
        self._outbox_bytes = worker.bounds.outbox
        self.refresh()

    def refresh(self) -> None:
        """Tasks have come or gone."""
        sides: list[tuple[Task, SourceSide | OwnRoots]] = [*self._worker.sources]
        sides += [(task, task.own) for task in self._worker.tasks if task.own is not None]
        self._sources = [(task, side, side.replays) for task, side in sides if side.replays is not None]
        self._next_ns = 0
        #: Whether looking cannot wait for the loop's housekeeping.
        self.pressing = any(replays.pressing for _, _, replays in self._sources)

    def press(self, *, on: bool) -> None:
        """Begin or cease to send what is late again, where the policy may be switched."""
        for _, _, replays in self._sources:
            replays.pressing = on
        self.pressing = on and bool(self._sources)
        self._next_ns = 0

    @property
    def due_ns(self) -> int:
        """When the next look is due, if anything is open."""
        return self._next_ns if any(len(source.ledger) for _, source, _ in self._sources) else _NEVER_NS

    def look(self, now_ns: int) -> None:
        """Send what is late again, if it is time to look."""
        if now_ns < self._next_ns:
            return
        self._next_ns = _NEVER_NS
        for task, source, replays in self._sources:
            replays.learn(source.ledger, now_ns)
            # Behind a full outbox nothing was lost: sending again would only make it longer.
            if not task.held_back(self._outbox_tuples, self._outbox_bytes):
                self._completion.replay(task, source, replays.due(source.ledger, now_ns))
            self._next_ns = min(self._next_ns, replays.next_look_ns(source.ledger, now_ns))
