"""The state of tasks of other workers, kept as of the last durable epoch: what a standby goes on with.

The coordinator says after each epoch which objects those tasks are put together from now; whoever may wait, a thread
beside the loop, reads those that are new (``read_next``), once for all tasks they are about. When a task comes to this
worker its shadow is taken, and what it lacks is read from the store: a shadow is a head start and decides nothing.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from tailrace.checkpoint.keyed import delta_of
from tailrace.checkpoint.part import decode_part
from tailrace.protocol import Followed
from tailrace.routing.fields import group_count
from tailrace.worker.execution.backends import backends_of

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from tailrace.checkpoint.part import TaskPart
    from tailrace.program.program import Program
    from tailrace.protocol import Follow, FromWorker
    from tailrace.state.backend import BackendFactory, StateBackend
    from tailrace.state.snapshot import KeyedPart

_log = logging.getLogger("tailrace.worker")
TaskId = tuple[int, int]


class Shadow:
    """One task as of the last of some objects."""

    def __init__(self, backend_of: BackendFactory) -> None:
        self._backend_of = backend_of
        #: The objects that were taken in, oldest first.
        self.objects: list[str] = []
        self.part: TaskPart | None = None
        #: The one that ``part`` is of, and those that told of no key: they may be missing in what is wanted.
        self.newest = ""
        self._empty: set[str] = set()
        #: Keyed state by operator.
        self.states: dict[str, StateBackend] = {}

    def take_in(self, name: str, part: TaskPart) -> None:
        """Go on by one object."""
        for operator, snapshot in part.snapshot.operators.items():
            for keyed in snapshot.keyed:
                if operator not in self.states:
                    self.states[operator] = self._backend_of(operator)
                self.states[operator].apply(delta_of(keyed))
        if not any(keyed.values or keyed.encoded or keyed.deleted for keyed in _keyed(part)):
            self._empty.add(name)
        self.part, self.newest = part, name
        self.objects.append(name)

    def drop(self) -> None:
        """Let go of what it has on disk: nobody will take it."""
        for state in self.states.values():
            state.close()

    def adapt(self, objects: list[str], merged: dict[str, list[str]]) -> bool:
        """Whether a task that is put together from these is what this becomes by those that it lacks.

        A merged object does what its parts did, and one without keys does nothing: what was taken in is told anew by
        the names that are wanted, if it comes to the same.
        """
        named = {*objects, *(name for run in merged.values() for name in run)}
        held = [name for name in self.objects if name in named or name not in self._empty]
        for at, name in enumerate(objects):
            run = merged.get(name, [])
            if run and held[at : at + len(run)] == run:
                held[at : at + len(run)] = [name]
        # All but keyed state is that of the newest part.
        if held != objects[: len(held)] or (len(held) == len(objects) and self.newest != objects[-1]):
            return False
        self._empty &= {*held}
        self.objects = held
        return True


def _keyed(part: TaskPart) -> list[KeyedPart]:
    return [keyed for snapshot in part.snapshot.operators.values() for keyed in snapshot.keyed]


class Shadows:
    """The shadows of one worker. The loop's thread gives orders and takes shadows, another one reads."""

    def __init__(self, get: Callable[[str], bytes], told: deque[FromWorker]) -> None:
        self._get = get
        self._told = told
        self._lock = threading.Lock()
        self._shadows: dict[TaskId, Shadow] = {}
        self._wanted: dict[TaskId, list[str]] = {}
        self._epoch = 0
        #: Whether something is to be read or told.
        self.behind = False

    # -- the loop's thread ---------------------------------------------------------------------------------------

    def follow(self, order: Follow, program: Program) -> None:
        """Learn which tasks to hold, and what they are put together from now."""
        with self._lock:
            self._epoch, self.behind = order.epoch, True
            self._wanted = {(stage, task): objects for stage, task, objects in order.tasks}
            kept, self._shadows = self._shadows, {}
            for ident, objects in self._wanted.items():
                shadow = kept.get(ident)
                merged = {name: run for *task, name, run in order.merged if (*task,) == ident}
                if shadow is None or not shadow.adapt(objects, merged):
                    groups = group_count(program.plan.stages[ident[0]].tasks, program.settings.key_groups)
                    shadow = Shadow(backends_of(program.settings, groups))
                self._shadows[ident] = shadow
            for shadow in kept.values():
                if shadow not in self._shadows.values():
                    shadow.drop()

    def take(self, stage: int, task: int, objects: list[str]) -> Shadow | None:
        """Let a shadow go that is, or leads to, a task which is put together from these; it is nobody else's then."""
        with self._lock:
            self._wanted.pop((stage, task), None)
            shadow = self._shadows.pop((stage, task), None)
        if shadow is None or (shadow.objects and shadow.adapt(objects, {})):
            return shadow
        shadow.drop()
        return None

    # -- whoever may wait ----------------------------------------------------------------------------------------

    def read_next(self) -> bool:
        """Read one object and take it in; false where nothing is left to be read, which is told."""
        with self._lock:
            name = self._next_name()
            if not name:
                if self.behind:
                    self.behind = False
                    self._told.append(Followed(self._epoch))
                return False
        parts = {(part.snapshot.stage, part.snapshot.task): part for part in decode_part(self._get(name), name).tasks}
        with self._lock:
            for ident, shadow in self._shadows.items():
                if self._lacks(ident) == name:
                    shadow.take_in(name, parts[ident])
        return True

    def give_up(self, error: Exception) -> None:
        """Leave it at what is held until the next epoch: an object could not be read or used."""
        _log.warning("a standby stays behind epoch %d: %s", self._epoch, error)
        self.behind = False

    def _next_name(self) -> str:
        return next((name for ident in self._shadows if (name := self._lacks(ident))), "")

    def _lacks(self, ident: TaskId) -> str:
        """The next object of a shadow, if it lacks one."""
        wanted, held = self._wanted[ident], len(self._shadows[ident].objects)
        return wanted[held] if held < len(wanted) else ""


class ShadowReader:
    """The thread that reads for the shadows of one worker; there is none before there are shadows."""

    def __init__(self, wakeup: Callable[[], None]) -> None:
        self._wakeup = wakeup
        self._work = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def attend(self, shadows: Shadows) -> None:
        """See that what is behind is read; called in every round of the loop."""
        if not shadows.behind:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, args=(shadows,), name="tailrace-standby", daemon=True)
            self._thread.start()
        self._work.set()

    def close(self) -> None:
        """Read nothing more."""
        self._closed = True
        self._work.set()

    def _serve(self, shadows: Shadows) -> None:
        while True:
            self._work.wait()
            self._work.clear()
            try:
                while not self._closed and shadows.read_next():
                    pass
            except Exception as error:  # noqa: BLE001 - a store, or user code that makes values again
                shadows.give_up(error)
            if self._closed:
                return
            self._wakeup()
