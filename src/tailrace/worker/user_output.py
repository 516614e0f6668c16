"""What plain user code prints and logs, on its way to the driver like the lines of ``ctx.logger``.

While a worker runs, the process's stdout and stderr and the root logger lead here. Lines that are written while a piece
of user code runs go to the driver under its operator and task; all else goes where it went before. Several workers
may share a process (in tests): the first one to come takes the streams over, the last one to go gives them back.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Spot = tuple[str, int]

#: A line that is not ended is told when it has become so long.
_LINE_CHARS_MAX = 2000


class _Route(NamedTuple):
    """One worker: tells whose code the calling thread runs, and takes what it says."""

    at_work: Callable[[], Spot | None]
    say: Callable[[int, str, int, str], None]


_routes: list[_Route] = []
_taken: list[Callable[[], None]] = []
_lock = threading.Lock()


@contextlib.contextmanager
def to_driver(at_work: Callable[[], Spot | None], say: Callable[[int, str, int, str], None]) -> Iterator[None]:
    """Send what user code of a worker prints and logs to the driver meanwhile."""
    route = _Route(at_work, say)
    with _lock:
        _routes.append(route)
        if len(_routes) == 1:
            _taken.append(_take_streams())
            _taken.append(_take_logging())
    try:
        yield
    finally:
        with _lock:
            if len(_routes) == 1:
                while _taken:
                    _taken.pop()()
            _routes.remove(route)


def _found() -> tuple[_Route, Spot] | None:
    """The worker, operator and task whose code the calling thread runs."""
    for route in _routes:
        if (spot := route.at_work()) is not None:
            return route, spot
    return None


class _Stream:
    """Stands in for stdout or stderr."""

    def __init__(self, inner: Any, level: int) -> None:
        self.inner = inner
        self._level = level
        self._begun: dict[Spot, tuple[_Route, str]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def write(self, text: str) -> int:
        """Send whole lines of user code on; write what is none of it as ever."""
        found = _found()
        if found is None:
            return int(self.inner.write(text)) if self.inner is not None else len(text)
        route, spot = found
        *lines, rest = (self._begun.pop(spot, (route, ""))[1] + text).split("\n")
        for line in lines:
            route.say(self._level, *spot, line)
        if len(rest) > _LINE_CHARS_MAX:
            route.say(self._level, *spot, rest)
        elif rest:
            self._begun[spot] = route, rest
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush what is none of a user's; lines of user code are sent when they end."""
        if self.inner is not None:
            self.inner.flush()

    def end(self) -> None:
        """Send lines that were never ended."""
        while self._begun:
            spot, (route, rest) = self._begun.popitem()
            route.say(self._level, *spot, rest)


def _take_streams() -> Callable[[], None]:
    out, err = _Stream(sys.stdout, logging.INFO), _Stream(sys.stderr, logging.WARNING)
    sys.stdout, sys.stderr = out, err

    def give_back() -> None:
        for name, stream in (("stdout", out), ("stderr", err)):
            stream.end()
            if getattr(sys, name) is stream:  # else someone has put another one in its place
                setattr(sys, name, stream.inner)

    return give_back


class _Handler(logging.Handler):
    """Sends records of user code on; where nobody else handles records, the others go where they went."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record."""
        try:
            if (found := _found()) is not None:
                found[0].say(record.levelno, *found[1], self.format(record))
            elif logging.root.handlers == [self] and record.levelno >= logging.WARNING and logging.lastResort:
                logging.lastResort.handle(record)
        except Exception:  # noqa: BLE001 - a user's arguments may not fit the message, and that is no reason to fail
            self.handleError(record)


def _take_logging() -> Callable[[], None]:
    root, handler = logging.root, _Handler()
    level = root.level
    if not root.handlers and level == logging.WARNING:
        root.setLevel(logging.INFO)  # nobody has set logging up; an operator's own logger begins at INFO, too
    root.addHandler(handler)

    def give_back() -> None:
        root.removeHandler(handler)
        root.setLevel(level)

    return give_back


class OperatorHandler(logging.Handler):
    """Sends what an operator logs by ``ctx.logger`` to the driver."""

    def __init__(self, say: Callable[[int, str, int, str], None], operator: str, task: int) -> None:
        super().__init__()
        self._say = say
        self._operator = operator
        self._task = task

    def emit(self, record: logging.LogRecord) -> None:
        """Hand one record over."""
        try:
            self._say(record.levelno, self._operator, self._task, self.format(record))
        except Exception:  # noqa: BLE001 - a user's arguments may not fit the message, and that is no reason to fail
            self.handleError(record)


def operator_logger(say: Callable[[int, str, int, str], None], operator: str, task: int) -> logging.Logger:
    """Make the logger of one task; not ``getLogger``, so that it goes with its worker and is kept by no registry."""
    logger = logging.Logger(f"tailrace.operator.{operator}.{task}", logging.INFO)  # noqa: LOG001
    logger.addHandler(OperatorHandler(say, operator, task))
    return logger
