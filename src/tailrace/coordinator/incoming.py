"""What workers send for the user's own code on the driver: values of sinks, and lines that operators log.

The brain keeps it as it came; ``callbacks`` decodes it and hands it over, outside the coordinator's thread. Pure.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.transport import codec

from .errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.protocol import LogLine

_log = logging.getLogger("tailrace")


class Received(NamedTuple):
    """Values that a task of a sink sent, still pickled; ``serial`` counts what its worker's connection has sent."""

    operator: str
    values: bytes
    connection: int
    serial: int

    def loaded(self) -> Any:
        """Decode the values; this runs what their classes bring along."""
        try:
            return codec.loads(self.values)
        except Exception as error:
            raise QueryError(
                f"Values that sink {self.operator!r} sent to the driver cannot be read there: "
                f"{type(error).__name__}: {error}.",
                "Make the modules that define their classes importable on the driver.",
            ) from error


class LogLines:
    """Lines that wait to be logged on the driver: the newest so many, and how many older ones had to go."""

    def __init__(self, lines_max: int) -> None:
        self._waiting: deque[LogLine] = deque(maxlen=lines_max)
        self._lines_max = lines_max
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, line: LogLine) -> None:
        """Keep a line; the oldest goes when there are too many."""
        self._dropped += len(self._waiting) == self._lines_max
        self._waiting.append(line)

    def take(self) -> tuple[list[LogLine], int]:
        """All lines that wait, oldest first, and how many were dropped before them."""
        lines, dropped = list(self._waiting), self._dropped
        self._waiting.clear()
        self._dropped = 0
        return lines, dropped


def log_lines(lines: Iterable[LogLine], dropped: int) -> None:
    """Log what operators logged in the workers; what was dropped on the way is said in one line."""
    if dropped:
        _log.warning(
            "%d log lines of operators were dropped: they came faster than this process logs them; "
            "the setting log_lines_max says how many may wait",
            dropped,
        )
    for line in lines:
        logger = logging.getLogger(f"tailrace.operator.{line.operator}")
        if logger.hasHandlers():
            logger.log(line.level, "[task %d] %s", line.task, line.text)
        elif line.level >= logging.INFO:  # nobody has set logging up: what was printed is seen all the same
            print(f"{line.operator}[{line.task}] {line.text}", file=sys.stderr, flush=True)  # noqa: T201
