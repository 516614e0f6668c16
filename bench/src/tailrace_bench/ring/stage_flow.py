"""The word count of Table I as a topology: every tuple carries when it was handed over. Workers import this module."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tailrace.connect.sinks import discard
from tailrace.topology.contracts import Reader, Records
from tailrace.topology.graph import Topology
from tailrace.topology.operators import KeyedOperator, Operator
from tailrace_bench.flows import PanelSource
from tailrace_bench.peers.panel import Panel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.clock import Clock
    from tailrace.topology.operators import State, TaskContext

#: The hand-overs, in order; then the whole way from the source to the end of the sum.
HOPS = ("source_split", "split_sum")
_CELLS = (*HOPS, "total")


class HopTally:
    """Sums of nanoseconds and counts, in a file that the tasks write and the bench reads; each cell has one writer."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        self.path = path
        self._cells = Panel(path, create=create).cells

    def add(self, name: str, nanoseconds: int) -> None:
        """Count one tuple in."""
        at = 2 * _CELLS.index(name)
        self._cells[at] += nanoseconds
        self._cells[at + 1] += 1

    def read(self) -> dict[str, tuple[int, int]]:
        """Nanoseconds and tuples so far, by name."""
        return {name: (self._cells[2 * at], self._cells[2 * at + 1]) for at, name in enumerate(_CELLS)}


class StampedSource(PanelSource):
    """Sentences with the time at which they are handed over."""

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Begin."""
        return _StampedReader(super().open(partition, offset, clock))


class _StampedReader(Reader):
    def __init__(self, inner: Reader) -> None:
        self._inner = inner

    def read(self, max_records: int) -> Records:
        """What is due by now, stamped."""
        records = self._inner.read(max_records)
        now_ns = time.monotonic_ns()
        return records._replace(values=[(now_ns, value) for value in records.values])

    @property
    def finished(self) -> bool:
        """Never."""
        return self._inner.finished

    def wait_s(self) -> float:
        """As the inner one."""
        return self._inner.wait_s()


class TimedSplit(Operator):
    """Splits, and tells how long the sentence was on its way."""

    def __init__(self, tally: str) -> None:
        self._path = tally

    def open(self, ctx: TaskContext) -> None:
        """Get the tally."""
        del ctx
        self._tally = HopTally(self._path)

    def process(self, value: tuple[int, str]) -> Iterator[tuple[int, int, str]]:
        """Emit each word with the time it left at, and that of its sentence."""
        sent_ns, sentence = value
        self._tally.add("source_split", time.monotonic_ns() - sent_ns)
        for word in sentence.split():
            yield sent_ns, time.monotonic_ns(), word


class Sum(KeyedOperator):
    """Counts, and tells how long the word was on its way."""

    def __init__(self, tally: str) -> None:
        self._path = tally

    def open(self, ctx: TaskContext) -> None:
        """Get the tally."""
        del ctx
        self._tally = HopTally(self._path)

    def process(self, key: str, value: tuple[int, int, str], state: State[int]) -> None:
        """Count one word."""
        del key
        root_ns, sent_ns, _ = value
        self._tally.add("split_sum", time.monotonic_ns() - sent_ns)
        state.value = (state.value or 0) + 1
        self._tally.add("total", time.monotonic_ns() - root_ns)


def _word(value: tuple[int, int, str]) -> str:
    return value[2]


def draw(panel: str, tally: str, values: list[str]) -> Topology:
    """Source, split, sum: one task each."""
    flow = Topology("stages")
    lines: Any = flow.source(StampedSource(panel, values, 1), name="source", tasks=1)
    lines.process(TimedSplit(tally), name="split", tasks=1).key_by(_word).process(Sum(tally), name="sum", tasks=1).sink(
        discard()
    )
    return flow
