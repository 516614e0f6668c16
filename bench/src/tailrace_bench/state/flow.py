"""The queries whose state is measured: values of many keys, and a paced count whose sink writes down what came when.

Workers import this module. Times are of the machine's monotonic clock, which all processes on it share.
"""

from __future__ import annotations

import os
import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.topology.contracts import NO_RECORDS, Reader, Records, Sink, Source
from tailrace.topology.graph import Topology
from tailrace_bench.peers.openloop import OpenLoop
from tailrace_bench.peers.panel import Panel

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace.topology.operators import State, TaskContext

VALUE_BYTES = 100
#: Keys of the paced count.
COUNTED_KEYS = 997
_NS_PER_S = 1_000_000_000
#: How many records of the paced source are made at once at most, after it was held up.
_STEP_MAX = 512


# -- many keys -----------------------------------------------------------------------------------------------------


class KeysSource(Source[int]):
    """Each key in turn, over and over, when the panel asks for it."""

    label = "keys"
    bounded = False

    def __init__(self, panel: str, keys: int, partitions: int) -> None:
        self._panel = panel
        self._keys = keys
        self._partitions = partitions

    def partitions(self) -> list[str]:
        """Numbered."""
        return [str(number) for number in range(self._partitions)]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Begin; where a query is resumed only its restore is measured, so records need not go on."""
        del offset
        return _KeysReader(OpenLoop(Panel(self._panel), int(partition), self._partitions, clock.now_ns), self._keys)


class _KeysReader(Reader):
    finished = False

    def __init__(self, loop: OpenLoop, keys: int) -> None:
        self._loop = loop
        self._keys = keys

    def read(self, max_records: int) -> Records:
        """What is due by now."""
        numbers, dues = self._loop.take(max_records)
        if not numbers:
            return NO_RECORDS
        return Records(numbers, [number % self._keys for number in numbers], dues)

    def wait_s(self) -> float:
        """Until the next record, or the next look at the panel."""
        return self._loop.wait_ns() / _NS_PER_S


def renew(key: int, value: int, state: State[bytes]) -> list[int]:
    """Replace what the key has by as many bytes that say one more."""
    held = state.get()
    number = 1 if held is None else int.from_bytes(held[:8], "little") + 1
    state.set(number.to_bytes(8, "little") + bytes(VALUE_BYTES - 8))
    del key
    return [value]


class Counter(Sink):
    """Counts on the panel what comes."""

    label = "counter"

    def __init__(self, panel: str) -> None:
        self._path = panel
        self._task = 0
        #: What the arm looks for at the end; nothing is kept.
        self.parts: list[dict[str, int]] = []

    def open(self, ctx: TaskContext) -> None:
        """Get the panel."""
        self._task = ctx.task
        self._panel = Panel(self._path)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_panel"}

    def write(self, values: list[Any]) -> None:
        """Count."""
        self._panel.count_done(self._task, len(values))


def keys_flow(panel: str, keys: int, tasks: int) -> tuple[Topology, Counter]:
    """Draw it."""
    flow, sink = Topology("keys"), Counter(panel)
    source = flow.source(KeysSource(panel, keys, tasks), tasks=tasks, name="keys")
    source.key_by(_itself).process(renew, tasks=tasks, name="renew").sink(sink, tasks=tasks)
    return flow, sink


def _itself(value: Any) -> Any:
    return value


# -- a paced count -------------------------------------------------------------------------------------------------


class AbsolutelyPaced(Source[int]):
    """Due times, open loop from one moment on: whoever reads late, or again, finds what was due meanwhile."""

    label = "paced"
    bounded = False

    def __init__(self, per_s: float, start_ns: int) -> None:
        self._per_s = per_s
        self._start_ns = start_ns

    def partitions(self) -> list[str]:
        """There is one."""
        return ["0"]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Go on from an offset."""
        del partition, clock
        return _AbsoluteReader(offset, _NS_PER_S / self._per_s, self._start_ns)


class _AbsoluteReader(Reader):
    finished = False

    def __init__(self, offset: int, period_ns: float, start_ns: int) -> None:
        self._next = offset
        self._period_ns = period_ns
        self._start_ns = start_ns

    def _due_ns(self, number: int) -> int:
        return self._start_ns + int(number * self._period_ns)

    def read(self, max_records: int) -> Records:
        """What is due by now."""
        due = int((time.monotonic_ns() - self._start_ns) / self._period_ns) + 1
        numbers = range(self._next, min(due, self._next + min(max_records, _STEP_MAX)))
        if not numbers:
            return NO_RECORDS
        self._next = numbers.stop
        dues = [self._due_ns(number) for number in numbers]
        return Records(numbers, dues, dues)

    def wait_s(self) -> float:
        """Until the next record."""
        return max(0, self._due_ns(self._next) - time.monotonic_ns()) / _NS_PER_S


class Journal(Sink):
    """Writes down when each value came that is a due time; a file per opening, so that a killed task's stay."""

    label = "journal"

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = -1

    def open(self, ctx: TaskContext) -> None:
        """Begin a file."""
        path = Path(self._folder) / f"{ctx.task}-{os.getpid()}-{time.monotonic_ns()}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, values: list[tuple[int, int]]) -> None:
        """Note the batch."""
        now_ns = time.monotonic_ns()
        rows = array("q")
        for due_ns, _ in values:
            rows.extend((due_ns, now_ns))
        os.write(self._file, rows.tobytes())


def read_journal(folder: Path) -> dict[int, int]:
    """When each value first came, by when it was due."""
    first: dict[int, int] = {}
    for path in folder.iterdir():
        rows = array("q")
        data = path.read_bytes()
        rows.frombytes(data[: len(data) // 16 * 16])
        for due_ns, came_ns in zip(rows[::2], rows[1::2], strict=True):
            first[due_ns] = min(came_ns, first.get(due_ns, came_ns))
    return first


def count_up(key: int, due_ns: int, state: State[int]) -> list[tuple[int, int]]:
    """One more of this key; gives when it was due, and the count."""
    del key
    made = (state.get() or 0) + 1
    state.set(made)
    return [(due_ns, made)]


def key_of_due(due_ns: int) -> int:
    """Spread due times over keys."""
    return due_ns % COUNTED_KEYS


def counted_flow(folder: str, per_s: float, tasks: int) -> Topology:
    """Draw the paced count: everything is there twice, so that a killed worker has some of it."""
    flow = Topology("counted")
    source = flow.source(AbsolutelyPaced(per_s, time.monotonic_ns()), tasks=1, name="paced")
    counted = source.key_by(key_of_due).process(count_up, tasks=tasks, name="count")
    counted.sink(Journal(folder), tasks=tasks, name="journal")
    return flow
