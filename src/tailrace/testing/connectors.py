"""A source that a test feeds by hand and a sink that remembers which task wrote what.

In process the source is the test's own object, shared by all tasks, so a test may feed and fail it while a query runs.
Under another host workers get a copy that holds what had been fed before the start. The sink reports to the driver.
"""

from __future__ import annotations

import uuid
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.topology.contracts import NO_RECORDS, Reader, Records, Sink, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.clock import Clock
    from tailrace.topology.operators import TaskContext

_WAIT_S = 0.1

#: Sources of this process by their key: a copy made in this process is the original.
_here: weakref.WeakValueDictionary[str, TestSource] = weakref.WeakValueDictionary()


class TestSource(Source[Any]):
    """Gives what the test feeds it; offsets count from 0 within each partition.

    It ends when all was read; with ``open_ended=True`` not before ``end`` was called. ``opened`` lists the (partition,
    offset) of every opening, and ``committed`` has the low-water mark of each partition.
    """

    __test__ = False  # not a test case, whatever pytest thinks of its name
    label = "test-source"

    def __init__(self, values: Iterable[Any] = (), *, partitions: int = 1, open_ended: bool = False) -> None:
        self.opened: list[tuple[str, int]] = []
        self.committed: dict[str, int] = {}
        self._fed: list[list[Any]] = [[] for _ in range(partitions)]
        self._open_ended = open_ended
        self._failure: Exception | None = None
        self._key = uuid.uuid4().hex
        _here[self._key] = self
        self.feed(values)

    def feed(self, values: Iterable[Any], partition: int | None = None) -> None:
        """Add values to one partition, or deal them out over all."""
        for value in values:
            into = self._fed[partition] if partition is not None else min(self._fed, key=len)
            into.append(value)

    def end(self) -> None:
        """Let the source end once all that was fed has been read."""
        self._open_ended = False

    def fail(self, error: Exception | None) -> None:
        """Let every read raise this error, until None is given."""
        self._failure = error

    def partitions(self) -> list[str]:
        """List the partitions, which are numbered."""
        return [str(number) for number in range(len(self._fed))]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Open a partition; a test sees where in ``opened``."""
        del clock
        self.opened.append((partition, offset))
        return _TestReader(self, partition, offset)

    def __reduce__(self) -> tuple[Callable[..., TestSource], tuple[str, list[list[Any]]]]:
        return _found_or_made, (self._key, self._fed)


def _found_or_made(key: str, fed: list[list[Any]]) -> TestSource:
    found = _here.get(key)
    if found is None:
        found = TestSource(partitions=len(fed))
        found._fed = fed  # noqa: SLF001 - its own copy
    return found


class _TestReader(Reader):
    def __init__(self, source: TestSource, partition: str, offset: int) -> None:
        self._source = source
        self._partition = partition
        self._at = offset

    @property
    def _left(self) -> list[Any]:
        return self._source._fed[int(self._partition)][self._at :]  # noqa: SLF001 - two halves of one thing

    @property
    def finished(self) -> bool:
        """Whether all was read and no more will be fed."""
        return not self._source._open_ended and not self._left and self._source._failure is None  # noqa: SLF001

    def wait_s(self) -> float:
        """Tell that there is something, or that it is worth looking again soon."""
        return 0.0 if self._left or self._source._failure is not None else _WAIT_S  # noqa: SLF001

    def read(self, max_records: int) -> Records:
        """Give what was fed, or raise what the test asked for."""
        if self._source._failure is not None:  # noqa: SLF001
            raise self._source._failure  # noqa: SLF001
        values = self._left[:max_records]
        if not values:
            return NO_RECORDS
        offsets = range(self._at, self._at + len(values))
        self._at += len(values)
        return Records(offsets, values)

    def commit(self, offset: int) -> None:
        """Note the low-water mark."""
        self._source.committed[self._partition] = offset


class Written(NamedTuple):
    """A batch that a task of a test sink wrote."""

    task: int
    values: list[Any]


class TestSink(Sink):
    """Keeps what was written: ``values`` in the order of arrival at the driver, ``by_task`` apart.

    ``fails(value)`` true makes the write of that value raise, to try error policies and dead letters.
    """

    __test__ = False
    label = "test-sink"

    def __init__(self, *, fails: Callable[[Any], object] | None = None) -> None:
        self.values: list[Any] = []
        self.by_task: dict[int, list[Any]] = {}
        self.fails = fails
        self._ctx: TaskContext | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what an earlier query brought: tasks have no use for it."""
        return {**self.__dict__, "values": [], "by_task": {}}

    def open(self, ctx: TaskContext) -> None:
        """Remember which task this is."""
        self._ctx = ctx

    def write(self, values: list[Any]) -> None:
        """Send the values to the driver, unless one of them is to fail."""
        for value in values:
            if self.fails is not None and self.fails(value):
                raise ValueError(f"the test lets {value!r} fail")
        if self._ctx is not None:
            self._ctx.emit_to_driver(Written(self._ctx.task, values))

    def receive(self, values: Written) -> None:
        """Keep what a task wrote."""
        self.values.extend(values.values)
        self.by_task.setdefault(values.task, []).extend(values.values)
