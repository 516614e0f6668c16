"""What workers send for the user's own code on the driver: values of sinks, and lines that operators log.

The brain keeps it as it came; ``callbacks`` decodes it and hands it over, outside the coordinator's thread. Pure.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.checkpoint.driver_objects import DriverValue
from tailrace.transport import codec

from .errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.protocol import Collected, LogLine

_log = logging.getLogger("tailrace")


class Rewound(NamedTuple):
    """All tasks have gone back: per operator and task the number of its next message, where it had sent any."""

    numbers: dict[tuple[str, int], int]

    def of(self, operator: str) -> dict[int, int]:
        """The numbers of one operator's tasks."""
        return {task: number for (name, task), number in self.numbers.items() if name == operator}


class Received(NamedTuple):
    """Values that a task of a sink sent, still pickled; ``serial`` counts what its worker's connection has sent.

    ``number`` counts what the task has sent since the query began; -1 where the driver has it already.
    """

    operator: str
    values: bytes
    connection: int
    serial: int
    task: int = 0
    number: int = 0

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


class ReceivedQueue:
    """What waits for the sinks on the driver, oldest first; added to and taken from by different threads."""

    def __init__(self, *, numbered: bool, remembered: Iterable[str] = ()) -> None:
        #: Whether tasks may send again what has come, after a recovery.
        self._numbered = numbered
        #: Operators whose values a driver that goes on from a checkpoint begins with; of those what no epoch has yet.
        self._remembered = frozenset(remembered if numbered else ())
        self._unwritten: list[DriverValue] = []
        self._waiting: deque[Received | Rewound] = deque()
        #: Per operator and task the number of its next message.
        self._next: dict[tuple[str, int], int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Received | Rewound]:
        return iter(self._waiting)

    def popleft(self) -> Received | Rewound:
        """Take the oldest."""
        return self._waiting.popleft()

    def add(self, connection: int, message: Collected) -> None:
        """Let values wait; those that came before are only told to be taken."""
        task, number = (message.operator, message.task), message.number
        if self._numbered and number < self._next.get(task, 0):
            number = -1
        else:
            self._next[task] = number + 1
            if message.operator in self._remembered:
                self._unwritten.append(DriverValue(message.operator, message.task, number, message.values))
        self._waiting.append(
            Received(message.operator, message.values, connection, message.serial, message.task, number)
        )

    def rewind(self, numbers: dict[tuple[str, int], int]) -> None:
        """All tasks went back: drop what comes again, and have the sinks told."""
        kept = [
            each
            for each in self._waiting
            if isinstance(each, Rewound) or each.number < numbers.get((each.operator, each.task), 0)
        ]
        self._waiting.clear()
        self._waiting.extend([*kept, Rewound(numbers)])
        self._unwritten = [each for each in self._unwritten if each.number < numbers.get((each.operator, each.task), 0)]
        self._next = {task: min(number, numbers.get(task, 0)) for task, number in self._next.items()}

    def resume(self, values: Iterable[DriverValue]) -> None:
        """Begin with what an earlier driver has taken: it does not count again."""
        for each in values:
            self._next[each.operator, each.task] = each.number + 1

    def unwritten(self, numbers: dict[str, int]) -> list[DriverValue]:
        """What has come, no epoch has yet, and belongs to one whose numbers are these, by operator/task."""
        return [each for each in self._unwritten if each.number < numbers.get(f"{each.operator}/{each.task}", 0)]

    def written(self, values: Iterable[DriverValue]) -> None:
        """An epoch has these."""
        known = {(each.operator, each.task, each.number) for each in values}
        self._unwritten = [each for each in self._unwritten if (each.operator, each.task, each.number) not in known]


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
