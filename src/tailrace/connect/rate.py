"""A generator with a fixed rate, open loop: every record has a time at which it is due, whether or not anyone is ready.

Latency counted from that time includes the wait of records that were due while the topology was busy, which a generator
that only sends when asked would hide. Touches nothing but the clock it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tailrace.topology.contracts import NO_RECORDS, OFFSET_MAX, Reader, Records, Source, Unreadable

from ..clock import NS_PER_S
from .errors import ConnectorOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..clock import Clock

T = TypeVar("T")

PARTITIONS_MAX = 10_000


def check_partitions(partitions: object) -> None:
    """Refuse numbers of partitions that are none."""
    if isinstance(partitions, bool) or not isinstance(partitions, int) or not 1 <= partitions <= PARTITIONS_MAX:
        raise ConnectorOptionError(
            f"partitions must be a whole number from 1 to {PARTITIONS_MAX:,}, found {partitions!r}.",
            "Give at least as many as the source has tasks, so that each has something to read.",
        )


def numbers_from(offset: int, numbers: range) -> range:
    """Return those of a partition's numbers that are not below the offset."""
    return numbers[-(-max(0, offset - numbers.start) // numbers.step) :]


class Rate(Source[T]):
    """See ``sources.rate``. Partition p of P makes the records p, p + P, p + 2P, ...; offsets are those numbers."""

    label = "rate"
    divided = True

    def __init__(
        self,
        per_s: float,
        make: Callable[[int], T] | None,
        values: Sequence[T] | None,
        count: int | None,
        partitions: int,
    ) -> None:
        check_partitions(partitions)
        if isinstance(per_s, bool) or not isinstance(per_s, int | float) or not per_s > 0:
            raise ConnectorOptionError(
                f"per_s must be a number of records per second above 0, found {per_s!r}.",
                "Use math.inf for as fast as they are taken.",
            )
        if make is not None and values is not None:
            raise ConnectorOptionError("rate takes make or values, found both.", "Leave one of them out.")
        if make is not None and not callable(make):
            raise ConnectorOptionError(
                f"make must be a function from a number to a value, found {make!r}.",
                "Use values= for a list to cycle over.",
            )
        if values is not None and not len(values):
            raise ConnectorOptionError("values must hold at least one value, found none.", "Leave it out for numbers.")
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= OFFSET_MAX
        ):
            raise ConnectorOptionError(
                f"count must be a whole number from 0 on, found {count!r}.", "Leave it out to go on for ever."
            )
        self.per_s = per_s
        self.make = make
        self.values = None if values is None else list(values)
        self.count = count
        self.partition_count = partitions
        self.bounded = count is not None

    def partitions(self) -> list[str]:
        """List the partitions, which are numbered."""
        return [str(number) for number in range(self.partition_count)]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Begin a partition, or go on with it: the first record from the offset on is due when first asked for."""
        stop = OFFSET_MAX if self.count is None else self.count
        numbers = numbers_from(offset, range(int(partition), stop, self.partition_count))
        return _RateReader(numbers, self._maker(), self.per_s, clock)

    def _maker(self) -> Callable[[range], list[Any]]:
        if self.values is not None:
            return _Cycle(self.values)
        if self.make is not None:
            make = self.make
            return lambda numbers: _made(make, numbers)
        return list


def _made(make: Callable[[int], Any], numbers: range) -> list[Any]:
    """Call the user's function with each number; one that makes it fail stands for itself."""
    made: list[Any] = []
    for number in numbers:
        try:
            made.append(make(number))
        except Exception as error:  # noqa: BLE001, PERF203 - a user's function may raise anything
            made.append(Unreadable(number, error))
    return made


class _Cycle:
    """Takes values from a list that begins again at its end; in slices, where the numbers follow one another."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __call__(self, numbers: range) -> list[Any]:
        values, size = self._values, len(self._values)
        if numbers.step > 1:
            return [values[number % size] for number in numbers]
        start = numbers.start % size
        made = values[start : start + len(numbers)]
        while len(made) < len(numbers):
            made += values[: len(numbers) - len(made)]
        return made


class _RateReader(Reader):
    """Hands out what is due. Times are counted from when it is first asked, not added up, so that they cannot drift.

    Not from the opening: a query opens its sources some time before it reads, and would begin with a backlog.
    """

    def __init__(self, numbers: range, make: Callable[[range], list[Any]], per_s: float, clock: Clock) -> None:
        self._left = numbers
        self._make = make
        self._clock = clock
        self._first = numbers.start
        self._started_ns: int | None = None
        self._period_ns = NS_PER_S / per_s  #: between records of all partitions together; 0 is no rate at all

    @property
    def _start_ns(self) -> int:
        if self._started_ns is None:
            self._started_ns = self._clock.now_ns()
        return self._started_ns

    def _due_ns(self, number: int) -> int:
        return self._start_ns + int((number - self._first) * self._period_ns)

    def read(self, max_records: int) -> Records:
        """Make the records that are due by now."""
        numbers = self._left[: min(max_records, self._due_count())]
        if not numbers:
            return NO_RECORDS
        self._left = self._left[len(numbers) :]
        return Records(numbers, self._make(numbers), self._dues_ns(numbers))

    def _dues_ns(self, numbers: range) -> Sequence[int] | None:
        if not self._period_ns:
            return None
        if self._period_ns.is_integer():  # as most rates people choose: no work per record
            first_ns, step_ns = self._due_ns(numbers.start), int(self._period_ns) * numbers.step
            return range(first_ns, first_ns + len(numbers) * step_ns, step_ns)
        start_ns, first, period_ns = self._start_ns, self._first, self._period_ns
        return [start_ns + int((number - first) * period_ns) for number in numbers]

    def _due_count(self) -> int:
        if not self._period_ns or not self._left:
            return len(self._left)
        due_ns = self._due_ns(self._left.start)
        late_ns = self._clock.now_ns() - due_ns
        return 0 if late_ns < 0 else int(late_ns / (self._period_ns * self._left.step)) + 1

    @property
    def finished(self) -> bool:
        """Whether the last record has been made."""
        return not self._left

    def wait_s(self) -> float:
        """Tell how long it is until the next record is due."""
        if not self._left:
            return 0.0
        due_ns = self._due_ns(self._left.start)
        return max(0, due_ns - self._clock.now_ns()) / NS_PER_S
