"""The query of ``tailrace bench migrate``: a paced source, an operator whose tasks move, a sink that takes notes.

And what the notes say: faults within keys and latencies, counted from when each tuple was due.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.routing.fields import even_groups, group_of
from tailrace.topology.contracts import Reader, Records, Sink, Source
from tailrace.topology.graph import Topology
from tailrace_bench.tails.arms import WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.clock import Clock
    from tailrace.config import Settings
    from tailrace.testing.chaos import Knobs
    from tailrace.topology.operators import TaskContext

KEYS = 60
SERVICE_S = 0.004
#: Of what the tasks can do; a timed wait takes a little longer than it says.
LOAD = 0.7
PER_S = LOAD * WORKERS / (SERVICE_S * 1.05)
OPERATOR = "work"
#: Numbers per arrival in a sink's file: key, number within the key, when it was due and when it came.
PLACES = 4
_NS_PER_S = 1_000_000_000
_MS_PER_NS = 1e-6

#: Per key what arrived, in order: number, when it was due, when it came.
ByKey = dict[int, list[tuple[int, int, int]]]


def in_turn(number: int) -> tuple[int, int]:
    """The key of the n-th tuple and its number within the key: each key in turn."""
    return number % KEYS, number // KEYS


class Paced(Source[tuple[int, int, int]]):
    """Key, number within the key, and when it was due, open loop: a source that is held up does not hide it."""

    label = "paced"
    bounded = False

    def __init__(self, per_s: float = PER_S, key_of: Callable[[int], tuple[int, int]] = in_turn) -> None:
        self._per_s = per_s
        self._key_of = key_of

    def partitions(self) -> list[str]:
        """There is one."""
        return ["0"]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Begin at an offset; times count from the first read."""
        del partition, clock
        return _PacedReader(offset, self._per_s, self._key_of)


class _PacedReader(Reader):
    finished = False

    def __init__(self, offset: int, per_s: float, key_of: Callable[[int], tuple[int, int]]) -> None:
        self._first = self._next = offset
        self._per_s = per_s
        self._key_of = key_of
        self._start_ns = 0

    def _due_ns(self, number: int) -> int:
        self._start_ns = self._start_ns or time.monotonic_ns()
        return self._start_ns + int((number - self._first) * _NS_PER_S / self._per_s)

    def read(self, max_records: int) -> Records:
        """What is due by now."""
        now_ns, begin = time.monotonic_ns(), self._next
        while self._next - begin < max_records and self._due_ns(self._next) <= now_ns:
            self._next += 1
        numbered = range(begin, self._next)
        dues_ns = list(map(self._due_ns, numbered))
        values = [(*self._key_of(number), due_ns) for number, due_ns in zip(numbered, dues_ns, strict=True)]
        return Records(numbered, values, dues_ns)

    def wait_s(self) -> float:
        """Until the next one is due."""
        return max(0, self._due_ns(self._next) - time.monotonic_ns()) / _NS_PER_S


class _Work:
    """A timed wait, which knobs can make longer."""

    def __init__(self, knobs: Knobs | None) -> None:
        self._knobs = knobs

    def __call__(self, value: tuple[int, int, int]) -> tuple[int, int, int]:
        """Wait, then let the value pass."""
        if self._knobs is None:
            time.sleep(SERVICE_S)
        else:
            self._knobs.wait(SERVICE_S)
        return value


def keyed_work(name: int, value: tuple[int, int, int], state: Any) -> list[tuple[int, int, int]]:
    """Give the value on under the number that the key's state has come to: a lost or doubled state shows."""
    del name
    time.sleep(SERVICE_S)
    count = state.get() or 0
    state.set(count + 1)
    return [(value[0], count, value[2])]


def names_of(key_groups: int, tasks: int = WORKERS) -> list[int]:
    """A name for each key, by which hashing gives key k to task k modulo the tasks: all have equally many."""
    task_of = even_groups(tasks, key_groups)
    wanted: list[list[int]] = [[] for _ in range(tasks)]
    name = 0
    while min(map(len, wanted)) < KEYS // tasks:
        wanted[task_of[group_of(name, len(task_of))]].append(name)
        name += 1
    return [wanted[key % tasks][key // tasks] for key in range(KEYS)]


class Named:
    """The name of a value's key."""

    def __init__(self, names: list[int]) -> None:
        self._names = names

    def __call__(self, value: tuple[int, int, int]) -> int:
        """Look it up."""
        return self._names[value[0]]


def _task_of(value: tuple[int, int, int], tasks: int) -> int:
    return value[0] % tasks


def flow_of(name: str, folder: str, settings: Settings, knobs: Knobs | None = None) -> Topology:
    """Source, the operator that moves, and the sink."""
    flow = Topology("migrate")
    source = flow.source(Paced(), tasks=1, name="numbers")
    if name == "keyed":
        keyed = source.key_by(Named(names_of(settings.key_groups)))
        stream = keyed.process(keyed_work, tasks=WORKERS, name=OPERATOR, blocking=True)
    else:
        stream = source.group_by(_task_of).map(_Work(knobs), tasks=WORKERS, name=OPERATOR, blocking=True)
    stream.to_global().sink(Diary(folder), tasks=1, name="diary")
    return flow


def keys_of(task: int) -> frozenset[int]:
    """The keys of a task, in either case."""
    return frozenset(range(task, KEYS, WORKERS))


class Diary(Sink):
    """Writes down what arrives when, in a file of its own per opening."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._rows = array("q")
        self._path: Path | None = None

    def open(self, ctx: TaskContext) -> None:
        """Begin a file."""
        self._path = Path(self._folder) / f"{ctx.task}-{time.monotonic_ns()}"

    def write(self, values: list[Any]) -> None:
        """Note the batch; rows are kept in memory, for a disk that stalls would be taken for a pause."""
        now_ns = time.monotonic_ns()
        for key, number, due_ns in values:
            self._rows.extend((key, number, due_ns, now_ns))

    def close(self) -> None:
        """Write the file."""
        if self._path is not None:
            self._path.write_bytes(self._rows.tobytes())


def read(folder: Path) -> ByKey:
    """What the diary says, by key, in order of arrival."""
    found: ByKey = {key: [] for key in range(KEYS)}
    for path in folder.iterdir():
        numbers = array("q")
        numbers.frombytes(path.read_bytes())
        for at in range(0, len(numbers), PLACES):
            key, number, due_ns, came_ns = numbers[at : at + PLACES]
            found[key].append((number, due_ns, came_ns))
    return found


def faults(by_key: ByKey) -> tuple[int, int, int]:
    """How many tuples were lost, doubled, and behind one of their key that was sent after them."""
    lost = doubled = reordered = 0
    for arrivals in by_key.values():
        counts = Counter(number for number, _, _ in arrivals)
        lost += max(counts, default=-1) + 1 - len(counts)
        doubled += sum(counts.values()) - len(counts)
        newest = -1
        for number, _, _ in arrivals:
            reordered += number < newest
            newest = max(newest, number)
    return lost, doubled, reordered


def latencies_ms(by_key: ByKey, window: tuple[int, int], keys: frozenset[int]) -> list[float]:
    """How late what was due in a window came, of some keys."""
    return [
        (came_ns - due_ns) * _MS_PER_NS
        for key in keys
        for _, due_ns, came_ns in by_key[key]
        if window[0] <= due_ns < window[1]
    ]


def p99_ms(latencies: list[float]) -> float:
    """The value that one in a hundred lies above; 0 where there are none."""
    return sorted(latencies)[int(0.99 * (len(latencies) - 1))] if latencies else 0.0
