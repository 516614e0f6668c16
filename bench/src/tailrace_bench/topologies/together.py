"""Three topologies started one after another on the same nodes, then placed again as one graph (StroMAX, figure 6).

Each is dealt out over all nodes when it starts, as round robin does. The processing time of each is noted twice a
second; in the middle all three are rebalanced together while they run, and the times before and after are compared.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailrace.config import Policy, Settings
from tailrace.connect import sinks
from tailrace.coordinator.query import Query
from tailrace.coordinator.reporting.latency import latency_so_far, since
from tailrace.testing.processes import ProcessHost
from tailrace.topology.contracts import Reader
from tailrace.topology.graph import Topology
from tailrace_bench.reporting.plots import made_by, pyplot_of_files
from tailrace_bench.reporting.rows import make_row
from tailrace_bench.tails.flows import Poisson

from . import texts
from .cases import LINK_DELAY_MS
from .flows import sentiment_of

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.clock import Clock
    from tailrace.topology.contracts import Records
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

NAME = "together"
BEFORE = "before"
NODES = 4
PER_S = 60.0
SAMPLE_S = 0.5
_MS_PER_NS = 1e-6
_SIZE_IN = (6.5, 3.6)
#: What StroMAX's global rebalance left of the processing times.
_PAPER = "0.735-0.891"
NOTE = (
    "together: WC, TT (1 KB) and TSSA, 60 tuples/s each on 4 nodes of one worker per query, by round robin with plain "
    "shuffle, then rebalanced as one graph by auto. before and after are windows of half a second, in their order."
)


@dataclass(frozen=True)
class TogetherTimes:
    """Seconds between the starts, until the rebalance, and after it."""

    apart_s: float
    before_s: float
    settle_s: float
    after_s: float

    @property
    def total_s(self) -> float:
        """All of it, with opening."""
        return 3 * (self.apart_s + 1.5) + self.before_s + self.settle_s + self.after_s + 3.0


QUICK = TogetherTimes(apart_s=1.0, before_s=5.0, settle_s=2.0, after_s=5.0)
FULL = TogetherTimes(apart_s=10.0, before_s=30.0, settle_s=5.0, after_s=30.0)


class Texts(Poisson):
    """Texts at random times with the time each was due; a task that moves goes on where it was."""

    def __init__(self, per_s: float, partitions: int, seed: int, values: list[str]) -> None:
        super().__init__(per_s, partitions, seed)
        self._values = values

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Begin at an offset."""
        return _TextReader(super().open(partition, offset, clock), self._values, int(partition))


class _TextReader(Reader):
    finished = False

    def __init__(self, inner: Reader, values: list[str], partition: int) -> None:
        self._inner = inner
        self._values = values
        self._partition = partition

    def read(self, max_records: int) -> Records:
        """What is due by now: a text and a number that no other partition gives."""
        records = self._inner.read(max_records)
        found = [(self._values[n % len(self._values)], n * NODES + self._partition) for n in records.values]
        return records._replace(values=found)

    def wait_s(self) -> float:
        """Until the next one is due."""
        return self._inner.wait_s()


def _words(record: tuple[str, int]) -> list[str]:
    return record[0].split()


def _flows() -> list[Topology]:
    def source(flow: Topology, values: list[str]) -> Any:
        return flow.source(Texts(PER_S / NODES, NODES, 1, values), tasks=NODES, name="source")

    count = Topology("WC")
    lines = source(count, texts.posts(200)).shuffle().flat_map(_words, tasks=NODES, name="split")
    lines.key_by(str).count(tasks=NODES, name="count").sink(sinks.discard(), name="counted")
    test = Topology("TT")
    passed = source(test, texts.strings(1000)).shuffle().map(tuple, tasks=NODES, name="identity")
    passed.shuffle().sink(sinks.discard(), tasks=NODES, name="anchor")
    mood = Topology("TSSA")
    sentiment_of(source(mood, texts.posts(200)), NODES)
    return [count, test, mood]


@dataclass
class Course:
    """One query's processing time over time: seconds since the first start, mean in ms."""

    points: list[tuple[float, float]] = field(default_factory=list)

    def between(self, begin_s: float, end_s: float) -> list[float]:
        """The times of windows that ended within a span."""
        return [ms for at_s, ms in self.points if begin_s < at_s <= end_s]


class TogetherRun:
    """The three queries on the way."""

    def __init__(self) -> None:
        self.courses: dict[str, Course] = {}
        self.moved: dict[str, list[dict[str, Any]]] = {}
        self.rebalanced_s = (0.0, 0.0)
        self._queries: list[Query] = []
        self._seen: dict[str, Any] = {}
        self._began_s = time.monotonic()

    @property
    def now_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began_s

    def start(self, flow: Topology) -> None:
        """One more query, on workers of its own on the same nodes."""
        hosts = [f"127.0.1.{1 + node}" for node in range(NODES)]
        host = ProcessHost(NODES, hosts=hosts, link_delay_ms=LINK_DELAY_MS, session=NAME)
        query = Query(flow, host, Policy(replay="fixed:600s"), Settings(progress_s=SAMPLE_S / 2)).start()
        self._queries.append(query)
        self.courses[query.name] = Course()

    def watch(self, seconds: float) -> None:
        """Note processing times for a while."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            time.sleep(SAMPLE_S)
            for query in self._queries:
                total = latency_so_far(query)
                window = since(self._seen.get(query.id, type(total)()), total)
                self._seen[query.id] = total
                if len(window):
                    self.courses[query.name].points.append((self.now_s, window.mean * _MS_PER_NS))

    def rebalance(self) -> None:
        """Place all three as one graph."""
        begin_s = self.now_s
        self.moved = self._queries[0].rebalance_session("auto")
        self.rebalanced_s = (begin_s, self.now_s)

    def close(self) -> None:
        """End all."""
        for query in self._queries:
            with contextlib.suppress(Exception):
                query.stop(now=True)


def rows(times: TogetherTimes, pace: Pace, plots: Path | None) -> tuple[list[Row], list[str]]:
    """Times after the rebalance against those before it, and how many tasks moved."""
    pace.step(f"{NAME}: three topologies as one graph", times.total_s)
    run = TogetherRun()
    try:
        for flow in _flows():
            run.start(flow)
            run.watch(times.apart_s)
        run.watch(times.before_s)
        run.rebalance()
        run.watch(times.settle_s + times.after_s)
    finally:
        run.close()
    begin_s, end_s = run.rebalanced_s
    found = []
    for name, course in run.courses.items():
        before = course.between(begin_s - times.before_s, begin_s)
        after = course.between(end_s + times.settle_s, float("inf"))
        found.append(
            make_row(
                f"{NAME},{name}", "tpt_ms", "ms", after,
                better="lower", baseline=BEFORE, base=before, paper=_PAPER,
            )
        )  # fmt: skip
    plans = [plan for each in run.moved.values() for plan in each]
    found.append(
        make_row(NAME, "tasks_moved", "tasks", [float(sum(len(plan["moves"]) for plan in plans))], better="lower")
    )
    return found, [NOTE, *([f"Plot: {file}" for file in _draw(run, plots)] if plots is not None else [])]


def _draw(run: TogetherRun, folder: Path) -> list[Path]:
    pyplot = pyplot_of_files()
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(figsize=_SIZE_IN, layout="constrained")
    for name, course in run.courses.items():
        axes.plot(*zip(*course.points, strict=True), marker=".", label=name)
    axes.axvspan(*run.rebalanced_s, alpha=0.3, label="rebalanced as one graph")
    axes.set(title="Three topologies on four nodes", xlabel="time, s", ylabel="mean processing time, ms", yscale="log")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.supxlabel(made_by("topologies"), fontsize=8, color="0.4")
    files = [folder / f"topologies-together.{ending}" for ending in ("svg", "png")]
    for file in files:
        figure.savefig(file)
    pyplot.close(figure)
    return files
