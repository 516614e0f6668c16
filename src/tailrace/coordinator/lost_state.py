"""What a lost worker takes along: the state of its tasks, which lives in its memory only.

The coordinator's brain asks whenever a worker is lost or replaced while the query runs. Unless the user accepts the
loss (``Settings.lost_state``), the query fails by name; otherwise it is logged, counted and shown in ``explain()``.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from typing import TYPE_CHECKING

from tailrace.topology.contracts import delivery_of
from tailrace.topology.operators import holds_state

from .errors import StateLostError

if TYPE_CHECKING:
    from tailrace.coordinator.membership import Member
    from tailrace.topology.operators import OperatorSpec

    from .brain import CoordinatorBrain

_log = logging.getLogger("tailrace")
#: Losses that ``explain()`` shows.
_TOLD_MAX = 16


class LostState:
    """The state that one query has lost so far."""

    def __init__(self, brain: CoordinatorBrain) -> None:
        self._brain = brain
        self.tasks = 0
        self.told: deque[str] = deque(maxlen=_TOLD_MAX)

    def on_lost(self, slot: int, member: Member) -> None:
        """A worker that was open is gone: fail, or warn, if tasks with state were on it."""
        if self._brain.state != "running" or not member.open:
            return
        tasks = self._tasks_with_state(slot)
        if not tasks:
            return
        shown = ", ".join(f"{name!r} ({count} task{'s' * (count > 1)})" for name, count in tasks.items())
        text = (
            f"Worker {slot} (executor {member.register.executor} on {member.peer.host}, pid {member.register.pid}) was "
            f"lost, and with it the state of {shown}; state is kept in memory."
        )
        if self._brain.program.settings.lost_state == "fail":
            self._brain.fail(
                StateLostError(
                    text,
                    "Start the query again with tr.start(..., checkpoint=PATH): then state survives. "
                    "Settings(lost_state='accept') goes on with empty state instead, warns and counts; a class without "
                    "state says so with stateful = False.",
                )
            )
            return
        self.tasks += tasks.total()
        self.told.append(text)
        _log.warning("query %s: %s It goes on with empty state.", self._brain.program.plan.name, text)

    def _tasks_with_state(self, slot: int) -> Counter[str]:
        """Per operator with state, how many of its tasks are on a worker and have not come to their end."""
        found: Counter[str] = Counter()
        for stage, slots in zip(self._brain.program.plan.stages, self._brain.placement, strict=True):
            names = [spec.name for spec in stage.operators if holds_state(spec) or _stages_output(spec)]
            lost = [task for task, at in enumerate(slots) if at == slot and not self._brain.is_done(stage.id, task)]
            found.update({name: len(lost) for name in names if lost})
        return found


def _stages_output(spec: OperatorSpec) -> bool:
    """Whether a sink holds what it took in back until its end."""
    return spec.kind == "sink" and delivery_of(spec.fn, durable=False) == "transactional"
