"""``tailrace bench migrate``: 50 moves of tasks under load, against the same load without moves.

Five workers, one operator of five tasks whose work is a timed wait, at 70 % of what they can do; a source gives each of
60 keys a rising number, and a sink writes down what arrives when. From that comes what was lost, doubled or out of
order within a key, how long the keys of a task were held up by its move, and what the other keys felt of it. Windows
with and without moves take turns within one query, so that each is held against one of the same minute.
"""

from __future__ import annotations

import random
import tempfile
import time
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.batch import Batch, numbers
from tailrace.config import Policy, Settings
from tailrace.connect.base import Reader, Records, Sink, Source
from tailrace.coordinator.query import Query
from tailrace.routing.fields import Fields
from tailrace.topology.graph import Topology

from .rows import limit_row, make_row
from .tails.arms import WORKERS, stage_of

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace.topology.operators import TaskContext

    from .pace import Pace
    from .rows import Row
    from .tails.arms import Stage

CASES = ("stateless", "keyed")
KEYS = 60
SERVICE_S = 0.004
#: Of what the tasks can do; a timed wait takes a little longer than it says.
LOAD = 0.7
PER_S = LOAD * WORKERS / (SERVICE_S * 1.05)
PAUSE_MS_MAX = 250.0
OTHERS_BAR = 2.0
_OPEN_S = 2.5
_WARM_S = 2.0
_DRAIN_S = 2.0
_PAPER = "restart, 10-20 s"
_NS_PER_S = 1_000_000_000
_MS_PER_NS = 1e-6
_OPERATOR = "work"
#: Numbers per arrival in a sink's file: key, number within the key, when it was due and when it came.
_PLACES = 4
PAUSE_NOTE = (
    "pause_p99_ms: for each move and each key of the moved task, the longest latency of the key's tuples that were due "
    "from the beginning of the move to half a second after it; p99 over all moves and keys."
)
WORK_NOTE = (
    f"Work is a timed wait of {SERVICE_S * 1000:g} ms, so that five workers fit on few cores; others_p99_ms is of the "
    "keys that did not move, in windows with moves against windows without in the same query."
)
NOTES = [PAUSE_NOTE, WORK_NOTE]


@dataclass(frozen=True)
class Times:
    """How long a case runs: pairs of windows, without moves and with them."""

    pairs: int
    moves: int
    gap_s: float

    @property
    def window_s(self) -> float:
        """One window."""
        return self.moves / self.pairs * self.gap_s

    @property
    def case_s(self) -> float:
        """One case."""
        return _OPEN_S + _WARM_S + _DRAIN_S + 2 * self.pairs * self.window_s


QUICK = Times(pairs=5, moves=50, gap_s=0.6)
FULL = Times(pairs=10, moves=50, gap_s=1.2)


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


@dataclass
class Arrivals:
    """Everything that arrived in a case, and the moves that were made."""

    #: Per key: number, when it was due, when it came; in order of arrival.
    by_key: dict[int, list[tuple[int, int, int]]]
    #: When each move began and ended, and the keys of the task that moved.
    moves: list[tuple[int, int, frozenset[int]]] = field(default_factory=list)
    #: Windows with and without moves: when they began and ended.
    moving: list[tuple[int, int]] = field(default_factory=list)
    still: list[tuple[int, int]] = field(default_factory=list)


def planned_s(times: Times, only: str | None) -> float:
    """About how long it takes."""
    return 10.0 + (1 if only else len(CASES)) * times.case_s


def rows(times: Times, pace: Pace, only: str | None = None, *, spark: bool = True) -> list[Row]:
    """All cases, or one."""
    found: list[Row] = []
    with stage_of(pace, spark=spark) as stage:
        for name in CASES if only is None else (only,):
            pace.step(f"{name}: {times.moves} moves", times.case_s)
            found += case_rows(name, _run(stage, name, times))
    return found


# -- the query -----------------------------------------------------------------------------------------------------


class Paced(Source[tuple[int, int, int]]):
    """Key, number within the key, and when it was due, open loop: a source that is held up does not hide it."""

    label = "paced"
    bounded = False

    def partitions(self) -> list[str]:
        """There is one."""
        return ["0"]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Begin at an offset; times count from the first read."""
        del partition, clock
        return _PacedReader(offset)


class _PacedReader(Reader):
    finished = False

    def __init__(self, offset: int) -> None:
        self._first = self._next = offset
        self._start_ns = 0

    def _due_ns(self, number: int) -> int:
        self._start_ns = self._start_ns or time.monotonic_ns()
        return self._start_ns + int((number - self._first) * _NS_PER_S / PER_S)

    def read(self, max_records: int) -> Records:
        """What is due by now."""
        now_ns, begin = time.monotonic_ns(), self._next
        while self._next - begin < max_records and self._due_ns(self._next) <= now_ns:
            self._next += 1
        numbered = range(begin, self._next)
        dues_ns = list(map(self._due_ns, numbered))
        values = [(number % KEYS, number // KEYS, due_ns) for number, due_ns in zip(numbered, dues_ns, strict=True)]
        return Records(numbered, values, dues_ns)

    def wait_s(self) -> float:
        """Until the next one is due."""
        return max(0, self._due_ns(self._next) - time.monotonic_ns()) / _NS_PER_S


def _work(value: tuple[int, int, int]) -> tuple[int, int, int]:
    time.sleep(SERVICE_S)
    return value


def _keyed_work(name: int, value: tuple[int, int, int], state: Any) -> list[tuple[int, int, int]]:
    """Give the value on under the number that the key's state has come to: a lost or doubled state shows."""
    del name
    time.sleep(SERVICE_S)
    count = state.get() or 0
    state.set(count + 1)
    return [(value[0], count, value[2])]


def names_of(key_groups: int) -> list[int]:
    """A name for each key, by which hashing gives key k to task k modulo the tasks: all have equally much to do."""
    router = Fields(None, WORKERS, key_groups)
    wanted: list[list[int]] = [[] for _ in range(WORKERS)]
    name = 0
    while min(map(len, wanted)) < KEYS // WORKERS:
        wanted[router.choose([name], Batch([], None, numbers()))[0]].append(name)
        name += 1
    return [wanted[key % WORKERS][key // WORKERS] for key in range(KEYS)]


class _Named:
    """The name of a value's key."""

    def __init__(self, names: list[int]) -> None:
        self._names = names

    def __call__(self, value: tuple[int, int, int]) -> int:
        return self._names[value[0]]


def _task_of(value: tuple[int, int, int], tasks: int) -> int:
    return value[0] % tasks


def flow_of(name: str, folder: str, settings: Settings) -> Topology:
    """Source, the operator that moves, and the sink."""
    flow = Topology("migrate")
    source = flow.source(Paced(), tasks=1, name="numbers")
    if name == "keyed":
        keyed = source.key_by(_Named(names_of(settings.key_groups)))
        stream = keyed.process(_keyed_work, tasks=WORKERS, name=_OPERATOR, blocking=True)
    else:
        stream = source.group_by(_task_of).map(_work, tasks=WORKERS, name=_OPERATOR, blocking=True)
    stream.to_global().sink(Diary(folder), tasks=1, name="diary")
    return flow


def keys_of(task: int) -> frozenset[int]:
    """The keys of a task, in either case."""
    return frozenset(range(task, KEYS, WORKERS))


def _run(stage: Stage, name: str, times: Times) -> Arrivals:
    settings = Settings()
    found = Arrivals({})
    rng = random.Random(name)  # noqa: S311 - it chooses tasks, nothing secret
    with tempfile.TemporaryDirectory(prefix="tailrace-migrate-") as folder:
        query = Query(flow_of(name, folder, settings), stage.host(settings), Policy(chaining="off"), settings).start()
        try:
            time.sleep(_WARM_S)
            for _ in range(times.pairs):
                found.still.append(_window(times.window_s))
                found.moving.append(_moving_window(query, times, rng, found))
            query.stop()
        except BaseException:
            query.stop(now=True)
            raise
        found.by_key = read(Path(folder))
    return found


def _window(seconds: float) -> tuple[int, int]:
    begun_ns = time.monotonic_ns()
    time.sleep(seconds)
    return begun_ns, time.monotonic_ns()


def _moving_window(query: Query, times: Times, rng: random.Random, found: Arrivals) -> tuple[int, int]:
    begun_ns = time.monotonic_ns()
    for number in range(times.moves // times.pairs):
        task = rng.randrange(WORKERS)
        here = next(
            row["worker"]
            for row in (query.lastProgress or {})["tasks"]
            if row["task"] == task and row["operators"] == [_OPERATOR]
        )
        worker = rng.choice([each for each in range(WORKERS) if each != here])
        before_ns = time.monotonic_ns()
        if query.move(_OPERATOR, task, worker):
            found.moves.append((before_ns, time.monotonic_ns(), keys_of(task)))
        time.sleep(max(0.0, begun_ns / _NS_PER_S + (number + 1) * times.gap_s - time.monotonic()))
    return begun_ns, time.monotonic_ns()


def read(folder: Path) -> dict[int, list[tuple[int, int, int]]]:
    """What the diary says, by key, in order of arrival."""
    found: dict[int, list[tuple[int, int, int]]] = {key: [] for key in range(KEYS)}
    for path in folder.iterdir():
        numbers = array("q")
        numbers.frombytes(path.read_bytes())
        for at in range(0, len(numbers), _PLACES):
            key, number, due_ns, came_ns = numbers[at : at + _PLACES]
            found[key].append((number, due_ns, came_ns))
    return found


# -- what it says --------------------------------------------------------------------------------------------------


def case_rows(name: str, found: Arrivals) -> list[Row]:
    """The rows of one case."""
    lost, doubled, reordered = faults(found.by_key)
    pauses = pauses_ms(found)
    others = [p99_ms(_others(found, window)) for window in found.moving]
    still = [p99_ms(_latencies(found, window, frozenset(range(KEYS)))) for window in found.still]
    return [
        make_row(name, "moves", "moves", [float(len(found.moves))], better="higher"),
        _none_row(name, "lost", lost),
        _none_row(name, "doubled", doubled),
        _none_row(name, "reordered", reordered),
        limit_row(name, "pause_p99_ms", "ms", [p99_ms(pauses)], PAUSE_MS_MAX) | {"paper": _PAPER},
        make_row(name, "pause_p50_ms", "ms", [sorted(pauses)[len(pauses) // 2]], better="lower"),
        make_row(
            name, "others_p99_ms", "ms", others, better="lower", baseline="without_moves", base=still, bar=OTHERS_BAR
        ),
    ]


def _none_row(case: str, metric: str, count: int) -> Row:
    """A row for what must not be at all."""
    return make_row(case, metric, "tuples", [float(count)], better="lower") | {
        "baseline": "none", "bar": 0.0, "ok": count == 0,
    }  # fmt: skip


def faults(by_key: dict[int, list[tuple[int, int, int]]]) -> tuple[int, int, int]:
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


def pauses_ms(found: Arrivals) -> list[float]:
    """For each move and each key of its task, the longest latency of what was due while it lasted and soon after."""
    pauses = []
    for begun_ns, ended_ns, keys in found.moves:
        for key in keys:
            window = begun_ns, ended_ns + _NS_PER_S // 2
            latencies = _latencies(found, window, frozenset((key,)))
            if latencies:
                pauses.append(max(latencies))
    return pauses or [0.0]


def _latencies(found: Arrivals, window: tuple[int, int], keys: frozenset[int]) -> list[float]:
    return [
        (came_ns - due_ns) * _MS_PER_NS
        for key in keys
        for _, due_ns, came_ns in found.by_key[key]
        if window[0] <= due_ns < window[1]
    ]


def _others(found: Arrivals, window: tuple[int, int]) -> list[float]:
    """Latencies during the moves of a window, of the keys that did not move then."""
    return [
        latency
        for begun_ns, ended_ns, keys in found.moves
        if window[0] <= begun_ns < window[1]
        for latency in _latencies(found, (begun_ns, ended_ns + _NS_PER_S // 2), frozenset(range(KEYS)) - keys)
    ]


def p99_ms(latencies: list[float]) -> float:
    """The value that one in a hundred lies above; 0 where there are none."""
    return sorted(latencies)[int(0.99 * (len(latencies) - 1))] if latencies else 0.0
