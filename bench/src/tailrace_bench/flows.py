"""The benches as Tailrace topologies: the panel's generator as a source, the bench's sink function as a sink.

Workers import this module.
"""

from __future__ import annotations

import collections
import time
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tailrace.data import wiki_path
from tailrace.topology.contracts import NO_RECORDS, Reader, Records, Sink, Source
from tailrace.topology.graph import Topology

from .measurement.arrivals import Arrivals
from .peers.openloop import OpenLoop
from .peers.panel import Panel
from .peers.work import EXCLAIM_STEPS, WORDS_PER_SENTENCE, Values, exclaim, exclaim_timed, keeper, split, split_timed

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace.topology.operators import State, TaskContext

_EXCLAIM_BYTES = 100
_EXCLAIM_STRINGS = 1000
#: Items that come out of the sinks for each record.
ITEMS_PER_RECORD = {"wordcount": WORDS_PER_SENTENCE, "exclaim": 1, "keys": 1}


def values_of(kind: str) -> list[str]:
    """Sentences of ten words from the excerpt that ships with the package, or strings of 100 bytes."""
    words = wiki_path().read_text(encoding="utf-8").split()
    if kind == "wordcount":
        ends = range(WORDS_PER_SENTENCE, len(words) + 1, WORDS_PER_SENTENCE)
        return [" ".join(words[end - WORDS_PER_SENTENCE : end]) for end in ends]
    text = " ".join(words).encode("ascii", "replace").decode("ascii")
    return [text[at : at + _EXCLAIM_BYTES] for at in range(0, _EXCLAIM_STRINGS * _EXCLAIM_BYTES, _EXCLAIM_BYTES)]


class PanelSource(Source[Any]):
    """Makes what the panel asks for; ``timed``, each value comes with the time when it was due."""

    label = "panel"
    bounded = False

    def __init__(self, panel: str, values: list[str], partitions: int, *, timed: bool = False) -> None:
        self._panel = panel
        self._values = values
        self._partitions = partitions
        self._timed = timed

    def partitions(self) -> list[str]:
        """Numbered."""
        return [str(number) for number in range(self._partitions)]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Begin; a bench that loses a worker is void, so there is no going on from an offset."""
        del offset
        loop = OpenLoop(Panel(self._panel), int(partition), self._partitions, clock.now_ns)
        return _PanelReader(loop, self._values, timed=self._timed)


class _PanelReader(Reader):
    def __init__(self, loop: OpenLoop, values: list[str], *, timed: bool) -> None:
        self._loop = loop
        self._values = Values(values)
        self._timed = timed

    def read(self, max_records: int) -> Records:
        """What is due by now."""
        numbers, dues = self._loop.take(max_records)
        if not numbers:
            return NO_RECORDS
        values: list[Any] = self._values.take(numbers)
        if self._timed:
            values = list(zip(values, dues or [0] * len(values), strict=True))
        return Records(numbers, values, dues)

    @property
    def finished(self) -> bool:
        """Never: another command may come."""
        return False

    def wait_s(self) -> float:
        """Until the next record, or the next look at the panel."""
        return self._loop.wait_ns() / 1e9


class PanelSink(Sink):
    """Calls the bench's sink function with each item, counts on the panel, and brings the results home at the end.

    ``timed``, it notes when items of each record came.
    """

    label = "keep"

    def __init__(self, kind: str, panel: str, *, timed: bool = False) -> None:
        self._kind = kind
        self._path = panel
        self._timed = timed
        #: On the driver: what each sink task held at the end.
        self.parts: list[dict[str, int]] = []
        self._ctx: TaskContext | None = None

    def open(self, ctx: TaskContext) -> None:
        """Get the panel and a sink function with a memory of its own."""
        self._ctx = ctx
        self._panel = Panel(self._path)
        self._keep, self._counts = keeper(self._kind)
        if self._timed:
            self._arrivals = Arrivals(times_path(self._path, ctx.task), create=True)

    def write(self, values: list[Any]) -> None:
        """Call the function with each value."""
        if self._ctx is None:
            return
        if self._timed:
            now_ns, keep, dues_ns = time.monotonic_ns(), self._keep, set()
            for value, due_ns in values:
                keep(value)
                dues_ns.add(due_ns)
            self._arrivals.note(dues_ns, now_ns)
        else:
            collections.deque(map(self._keep, values), maxlen=0)
        self._panel.count_done(self._ctx.task, len(values))

    def close(self) -> None:
        """Send the results."""
        if self._ctx is not None:
            self._ctx.emit_to_driver(self._counts)

    def receive(self, values: Any) -> None:
        """On the driver, keep them."""
        self.parts.append(values)


def times_path(panel: str, task: int) -> str:
    """Where a timed sink task notes arrivals."""
    return f"{panel}.{task}.times"


def count_timed(word: Any, pair: Any, state: State[int]) -> list[tuple[tuple[str, int], int]]:
    """One more of this word, past its due time."""
    made = (state.get() or 0) + 1
    state.set(made)
    return [((word, made), pair[1])]


def flow_of(kind: str, panel: str, values: list[str], tasks: int, *, timed: bool = False) -> tuple[Topology, PanelSink]:
    """Draw a bench: as many partitions and tasks of its source as of every operator."""
    flow, sink = Topology(kind), PanelSink(kind, panel, timed=timed)
    source = flow.source(PanelSource(panel, values, tasks, timed=timed), name="values", tasks=tasks)
    if kind == "wordcount" and timed:
        words = source.flat_map(split_timed, name="split", tasks=tasks)
        words.key_by(itemgetter(0)).process(count_timed, name="count", tasks=tasks).sink(sink)
        return flow, sink
    if kind == "wordcount":
        source.flat_map(split, name="split", tasks=tasks).key_by(str).count(name="count", tasks=tasks).sink(sink)
        return flow, sink
    stream = source
    for step in range(EXCLAIM_STEPS):
        stream = stream.map(exclaim_timed if timed else exclaim, name=f"exclaim{step + 1}", tasks=tasks)
    stream.sink(sink)
    return flow, sink
