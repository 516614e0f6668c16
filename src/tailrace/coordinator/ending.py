"""The end of a query, in its order, whatever its parts do: workers, session, sinks, companions, actions, listeners.

Runs in a thread of its own that waits for the coordinator's loop. Each step is tried; what one raises is the query's
error, if it has none yet, and the next step follows. ``finished`` is set in any case.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from tailrace.coordinator.migration.multi_query import REGISTRY

from .errors import CallbackError, StopTimeoutError
from .reporting.open_work import still_open

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.coordinator.interfaces import Host

    from .brain import CoordinatorBrain
    from .callbacks import Callbacks
    from .loop import CoordinatorLoop
    from .query import Query

_HOST_STOP_S = 15.0
_HOST_ABORT_S = 1.0
#: Farewell, workers, callbacks: each has a limit of a few seconds where the end is asked for at once.
_AT_ONCE_S = 30.0


class Ending:
    """What happens when a query ends."""

    def __init__(
        self, query: Query, loop: CoordinatorLoop, brain: CoordinatorBrain, callbacks: Callbacks, host: Host
    ) -> None:
        self.finished = threading.Event()
        self.actions: list[Callable[[], None]] = []
        #: The sinks that were told of the beginning, by operator.
        self.begun: dict[str, Callable[[Exception | None], None]] = {}
        self._query = query
        self._loop = loop
        self._brain = brain
        self._callbacks = callbacks
        self._host = host
        self._at_once = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="tailrace-query", daemon=True)

    def start(self) -> None:
        """Wait for the loop's end in the background."""
        self._thread.start()

    @property
    def _called_from_here(self) -> bool:
        """Whether the caller is the user's code, called by one of the query's own threads."""
        return self._callbacks.here or threading.current_thread() is self._thread

    def check_may_wait(self, what: str) -> None:
        """Refuse to wait for the end in a thread that the end waits for."""
        if self._called_from_here and not self.finished.is_set():
            raise CallbackError(
                f"{what} was called by a listener, a sink or an action of the query itself, and would wait for ever.",
                "Call it in a thread of your own; stop() may be called anywhere.",
            )

    def stop(self, *, now: bool) -> None:
        """Ask for the end and wait for it; raises where it does not come in time."""
        if self._thread.ident is None:  # never started
            self._loop.close_if_idle()
            self.finished.set()
            return
        if now:
            self._loop.ask(lambda brain, _: brain.stop_now())
            self._loop.close_if_idle()
        for companion in self._callbacks.companions:
            self._callbacks.call(f"stopping() of {type(companion).__name__}", partial(companion.stopping, now=now))
        if now:
            self.hurry()
        else:
            self._loop.ask(lambda brain, now_ns: brain.drain(now_ns))
            self._loop.close_if_idle()
        limit_s = _AT_ONCE_S if now else self._brain.program.settings.drain_timeout_s + 2 * _HOST_STOP_S
        if not self._called_from_here and not self.finished.wait(limit_s):
            raise StopTimeoutError(
                f"The query was told to {'end at once' if now else 'stop'} and has not within {limit_s:.0f} s: "
                f"{self._loop.look(still_open)}{self._still_called()}.",
                "Call stop() again to go on waiting, or stop(now=True) to leave what is open."
                if not now
                else "Look at what the named call waits for; the workers are told to end.",
            )

    def _still_called(self) -> str:
        calling, waiting = self._callbacks.calling, len(self._brain.received)
        text = f"; {calling} has not returned" if calling else ""
        return f"{text}; {waiting} messages wait for sinks on the driver" if waiting else text

    def hurry(self) -> None:
        """Wait for nothing more; where workers are being waited for already, they are ended."""
        self._at_once.set()
        if self._loop.ended.is_set() and not self.finished.is_set():
            self._callbacks.call("Ending the workers", self._host.stop, _HOST_ABORT_S)

    @property
    def _in_haste(self) -> bool:
        return self._at_once.is_set() or self._brain.error is not None

    def _serve(self) -> None:
        try:
            self._loop.ended.wait()
            self._end()
        finally:
            self.finished.set()

    def _end(self) -> None:
        call = self._callbacks.call
        # Workers that never opened have nothing to finish.
        patient = self._brain.started and not self._at_once.is_set()
        call("Ending the workers", self._host.stop, _HOST_STOP_S if patient else _HOST_ABORT_S)
        call("Leaving the session", REGISTRY.leave, self._host.session, self._query.id)
        self._callbacks.close(lambda: self._in_haste)
        stuck = self._callbacks.stuck
        for companion in self._callbacks.companions:
            call(f"ended() of {type(companion).__name__}", companion.ended)
        for name, finish in self.begun.items():
            if f"sink {name!r}" not in stuck:  # it is in a call of its own that does not return
                call(f"finish() of sink {name!r}", finish, self._brain.error)
        for action in self.actions:
            call("An action at the end of the query", action)
        self._callbacks.tell(lambda listener: listener.onQueryTerminated(self._query, self._brain.error))
