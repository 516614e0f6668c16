"""``query.savepoint`` and ``query.stop(savepoint=)``: savepoints that a user asks for, from the user's thread.

Asks the coordinator's brain under its lock, and waits for what becomes of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tailrace.checkpoint.errors import CheckpointNeededError, SavepointFailedError
from tailrace.checkpoint.savepoint import Savepoint, WrittenSavepoint, open_empty
from tailrace.coordinator.errors import DrainTimeoutError
from tailrace.coordinator.reporting.open_work import still_open
from tailrace.coordinator.reporting.stuck import named

from .requests import SavepointRequest

if TYPE_CHECKING:
    import os

    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.interfaces import Host
    from tailrace.coordinator.loop import CoordinatorLoop

_POLL_S = 0.005


class SavepointApi:
    """The savepoints of one query, as its user asks for them."""

    def __init__(self, loop: CoordinatorLoop, brain: CoordinatorBrain, host: Host) -> None:
        self._loop = loop
        self._brain = brain
        self._host = host

    def make(
        self, where: Savepoint | str | os.PathLike[str], *, drained: bool, timeout_s: float | None
    ) -> WrittenSavepoint:
        """Make a savepoint; raises where it cannot be made."""
        checkpoints = self._brain.checkpoints
        if checkpoints is None:
            raise CheckpointNeededError(
                f"A savepoint is an epoch of the query's checkpoint; {self._brain.program.plan.name!r} has none.",
                "Start it with checkpoint=PATH.",
            )
        if drained and self._brain.draining:
            raise SavepointFailedError(
                "The query is being stopped already, and ends without a savepoint.",
                "Call stop(savepoint=PATH) in place of stop().",
            )
        self._check_running()
        savepoint = where if isinstance(where, Savepoint) else Savepoint(where)
        target = open_empty(savepoint.path, savepoint.options, self._session)
        request = SavepointRequest(target, drained=drained)
        limit_s = self._brain.program.settings.drain_timeout_s if timeout_s is None else timeout_s
        self._loop.ask(lambda *_: checkpoints.savepoints.ask(request))
        try:
            return self._wait(request, time.monotonic() + limit_s, limit_s)
        finally:  # after Ctrl-C nobody waits for it any more
            left = SavepointFailedError("Nobody waits for the savepoint any more.")
            self._loop.ask(lambda *_: checkpoints.savepoints.give_up(request, left))

    @property
    def _session(self) -> Any:
        return self._host.session

    def _wait(self, request: SavepointRequest, deadline_s: float, limit_s: float) -> WrittenSavepoint:
        """Wait until it was made; the limit is for the epoch, a copy that has begun takes as long as it takes."""
        while not request.over:
            self._check_running()
            if request.manifest is None and time.monotonic() > deadline_s:
                raise self._loop.look(lambda brain: _too_late(brain, request, limit_s))
            time.sleep(_POLL_S)
        if request.error is not None:
            raise request.error
        if request.written is None:
            raise SavepointFailedError("The savepoint was not made, and nothing says why.")
        return request.written

    def _check_running(self) -> None:
        brain = self._brain
        if brain.state == "ended" and not self._made:
            why = f" It failed: {brain.error}" if brain.error is not None else ""
            raise SavepointFailedError(
                f"The query has ended, so that no savepoint can be made of it.{why}",
                "Its checkpoint is still there: restore= takes the path of that, too.",
            )

    @property
    def _made(self) -> bool:
        """Whether the query has ended because a drained savepoint was made."""
        checkpoints = self._brain.checkpoints
        return checkpoints is not None and checkpoints.savepoints.stopped


def _too_late(brain: CoordinatorBrain, request: SavepointRequest, limit_s: float) -> Exception:
    if request.drained:
        return DrainTimeoutError(
            f"Open tuples did not come to an end within {limit_s:g} s of holding the input for a savepoint: "
            f"{still_open(brain)}.{named(brain.members)} The query goes on.",
            "Give it longer (timeout_s), or take a savepoint without stopping: query.savepoint(PATH).",
        )
    return SavepointFailedError(
        f"No epoch became durable within {limit_s:g} s of asking for a savepoint. The query goes on.",
        "Give it longer (timeout_s), and look at the warnings of its checkpoints.",
    )
