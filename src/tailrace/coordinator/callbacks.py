"""The second thread of a query on the driver: it calls what is the user's, so that the coordinator never does.

Sinks get what their tasks sent, companions what is complete, listeners what has happened, log handlers what operators
logged. A call may take its time: workers keep their leases, and are told that values are taken only when the sink has
them, which holds them back. What a call raises ends the query under the name of what was called.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from tailrace.errors import TailraceError
from tailrace.program.errors import user_stack

from .errors import CallbackError, CoordinatorError
from .incoming import Rewound, log_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.coordinator.interfaces import Companion, QueryListener
    from tailrace.topology.contracts import Sink

    from .brain import CoordinatorBrain
    from .incoming import Received
    from .loop import CoordinatorLoop
    from .query import Query

_log = logging.getLogger("tailrace")
_TICK_S = 0.05
#: Workers hear that values are taken at least so often; in between it is gathered, because each message is a round.
_TAKEN_S = 0.005
#: How long a call may go on once the query has failed or is to end at once.
_LEAVE_S = 5.0


def callback_error(what: str, error: BaseException) -> Exception:
    """Name what failed; an error of ours is named already."""
    if isinstance(error, TailraceError):
        return error
    named = CallbackError(
        f"{what} failed on the driver: {type(error).__name__}: {error}.",
        f"Mend it; what it raises ends the query.\n{user_stack(error)}",
    )
    named.__cause__ = error
    return named


class Callbacks:
    """The user's code on the driver, called by one thread."""

    def __init__(self, query: Query, loop: CoordinatorLoop, brain: CoordinatorBrain, sinks: Mapping[str, Sink]) -> None:
        self.listeners: list[QueryListener] = []
        self.companions: list[Companion] = []
        #: What each thread is calling now.
        self._calling: dict[str, str] = {}
        self._query = query
        self._loop = loop
        self._brain = brain
        self._sinks = sinks
        self._seen_progress = 0
        self._told_start = False
        self._taken: dict[int, int] = {}
        #: Below these offsets everything is complete, and sinks and companions have what came of it.
        self.marks: dict[int, int] = {}
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="tailrace-callbacks", daemon=True)

    def start(self) -> None:
        """Begin to call."""
        self._thread.start()

    def wake(self) -> None:
        """Something has come; called by the coordinator's thread."""
        if self._brain.news:
            self._brain.news = False
            self._woken.set()

    @property
    def calling(self) -> str:
        """What is being called now; empty between calls."""
        return ", ".join(self._calling.copy().values())

    @property
    def stuck(self) -> str:
        """The call that did not return although the query ended; empty if all did."""
        return self._calling.get(self._thread.name, "") if self._left.is_set() else ""

    @property
    def here(self) -> bool:
        """Whether the caller is the user's code, called from here."""
        return threading.current_thread() is self._thread

    def close(self, in_haste: Callable[[], bool]) -> None:
        """Let all that has come be handed over, then end; in haste, a call that does not return is left alone."""
        self._closing.set()
        self._woken.set()
        leave_s = None
        while self._thread.is_alive():
            self._thread.join(_TICK_S)
            if in_haste():
                leave_s = leave_s or time.monotonic() + _LEAVE_S
                if time.monotonic() > leave_s:
                    self._left.set()
                    _log.error(
                        "query %s ended while %s had not returned; %d messages for sinks were left",
                        self._query.name, self.stuck or "a callback", len(self._brain.received),
                    )  # fmt: skip
                    return

    def _serve(self) -> None:
        try:
            closing = False
            while not closing and not self._left.is_set():
                closing = self._closing.is_set()
                self._round()
                if not closing:
                    self._woken.wait(_TICK_S)
                    self._woken.clear()
        except BaseException as error:  # noqa: BLE001 - nobody else would hear of it
            self.fail(CoordinatorError(f"Handing over to the driver failed: {type(error).__name__}: {error}."))

    def _round(self) -> None:
        # Marks before sinks get what came of them: companions are told of what sinks have.
        marks, waiting, (lines, dropped) = self._loop.look(
            lambda brain: (dict(brain.marks), len(brain.received), brain.logs.take())
        )
        if lines:
            self.call("A handler of Python's logging", log_lines, lines, dropped)
        self._hand_over(waiting)
        for name, sink in self._sinks.items():
            self.call(f"attend() of sink {name!r}", sink.attend)
        for companion in self.companions:
            self.call(f"attend() of {type(companion).__name__}", companion.attend, marks)
        self.marks = marks
        if not self._told_start and self._brain.started:
            self._told_start = True
            self.tell(lambda listener: listener.onQueryStarted(self._query))
        progress = self._query.lastProgress
        if progress is not None and progress["sequence"] != self._seen_progress:
            self._seen_progress = progress["sequence"]
            self.tell(lambda listener: listener.onQueryProgress(self._query, progress))

    def _hand_over(self, waiting: int) -> None:
        """Give the user's own sink objects what their tasks sent, and tell the workers so."""
        told_s = time.monotonic()
        for _ in range(waiting):
            if self._left.is_set():
                return
            if not self._brain.received:
                break  # a recovery has taken some back
            item = self._brain.received.popleft()
            if isinstance(item, Rewound):
                self._rewind(item)
            elif self.call(f"receive() of sink {item.operator!r}", self._receive, item):
                self._taken[item.connection] = item.serial
            if time.monotonic() - told_s > _TAKEN_S:
                self._tell_taken()
                told_s = time.monotonic()
        self._tell_taken()

    def _receive(self, item: Received) -> None:
        if item.number >= 0:
            self._sinks[item.operator].receive_from(item.task, item.number, item.loaded())

    def _rewind(self, rewound: Rewound) -> None:
        for name, sink in self._sinks.items():
            self.call(f"rewind() of sink {name!r}", sink.rewind, rewound.of(name))

    def _tell_taken(self) -> None:
        if self._taken:
            taken, self._taken = self._taken, {}
            self._loop.ask(lambda brain, _: brain.taken(taken))

    # -- calling -------------------------------------------------------------------------------------------------

    def call(self, what: str, act: Callable[..., object], *args: Any) -> bool:
        """Call something of the user's; what it raises ends the query. Tells whether it returned."""
        thread = threading.current_thread().name
        self._calling[thread] = what
        try:
            act(*args)
        except BaseException as error:  # noqa: BLE001 - a user's code may raise anything, SystemExit too
            self.fail(callback_error(what, error))
            return False
        finally:
            self._calling.pop(thread, None)
        return True

    def fail(self, error: Exception) -> None:
        """Let the query fail, also where it has ended already."""
        self._loop.ask(lambda brain, _: brain.fail_even_late(error))

    def tell(self, tell: Callable[[QueryListener], None]) -> None:
        """Tell all listeners; one that raises is logged and ends neither the query nor the telling."""
        for listener in list(self.listeners):
            named = type(getattr(listener, "listener", listener)).__name__  # of PySpark's, the user's own object
            self.call(f"Listener {named}", self._tell_one, tell, listener)

    def _tell_one(self, tell: Callable[[QueryListener], None], listener: QueryListener) -> None:
        try:
            tell(listener)
        except Exception:  # noqa: BLE001 - but what asks for the end of more than itself, SystemExit for one
            _log.exception("a listener of query %s failed", self._query.name)
