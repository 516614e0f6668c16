"""Values in memory as a source, for examples, tests and small inputs. They travel to the workers with the topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tailrace.topology.contracts import Reader, Records, Source

from .rate import check_partitions, numbers_from

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..clock import Clock

T = TypeVar("T")


class Items(Source[T]):
    """See ``sources.items``. Partition p of P holds the values p, p + P, p + 2P, ...; offsets are those numbers."""

    label = "items"
    divided = True

    def __init__(self, values: Iterable[T], partitions: int) -> None:
        check_partitions(partitions)
        self.values = list(values)
        self.partition_count = partitions

    def partitions(self) -> list[str]:
        """List the partitions, which are numbered."""
        return [str(number) for number in range(self.partition_count)]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Open a slice of the list."""
        del clock
        numbers = range(int(partition), len(self.values), self.partition_count)
        return _ItemsReader(numbers_from(offset, numbers), self.values)


class _ItemsReader(Reader):
    def __init__(self, numbers: range, values: list[Any]) -> None:
        self._left = numbers
        self._values = values

    def read(self, max_records: int) -> Records:
        """Return the next values."""
        numbers = self._left[:max_records]
        self._left = self._left[max_records:]
        return Records(numbers, self._values[numbers.start : numbers.stop : numbers.step])

    @property
    def finished(self) -> bool:
        """Whether the list has been read to its end."""
        return not self._left
