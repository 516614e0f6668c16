"""The benches as Tailrace topologies: the panel's generator as a source, the bench's sink function as a sink.

Workers import this module.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from tailrace.connect.base import NO_RECORDS, Reader, Records, Sink, Source
from tailrace.data import wiki_path
from tailrace.topology.graph import Topology

from .peers.openloop import OpenLoop
from .peers.panel import Panel
from .peers.work import EXCLAIM_STEPS, WORDS_PER_SENTENCE, Values, exclaim, keeper, split

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace.topology.operators import TaskContext

_EXCLAIM_BYTES = 100
_EXCLAIM_STRINGS = 1000
#: Items that come out of the sinks for each record.
ITEMS_PER_RECORD = {"wordcount": WORDS_PER_SENTENCE, "exclaim": 1}


def values_of(kind: str) -> list[str]:
    """Sentences of ten words from the excerpt that ships with the package, or strings of 100 bytes."""
    words = wiki_path().read_text(encoding="utf-8").split()
    if kind == "wordcount":
        ends = range(WORDS_PER_SENTENCE, len(words) + 1, WORDS_PER_SENTENCE)
        return [" ".join(words[end - WORDS_PER_SENTENCE : end]) for end in ends]
    text = " ".join(words).encode("ascii", "replace").decode("ascii")
    return [text[at : at + _EXCLAIM_BYTES] for at in range(0, _EXCLAIM_STRINGS * _EXCLAIM_BYTES, _EXCLAIM_BYTES)]


class PanelSource(Source[str]):
    """Makes what the panel asks for."""

    label = "panel"
    bounded = False

    def __init__(self, panel: str, values: list[str], partitions: int) -> None:
        self._panel = panel
        self._values = values
        self._partitions = partitions

    def partitions(self) -> list[str]:
        """Numbered."""
        return [str(number) for number in range(self._partitions)]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Begin; a bench that loses a worker is void, so there is no going on from an offset."""
        del offset
        return _PanelReader(OpenLoop(Panel(self._panel), int(partition), self._partitions, clock.now_ns), self._values)


class _PanelReader(Reader):
    def __init__(self, loop: OpenLoop, values: list[str]) -> None:
        self._loop = loop
        self._values = Values(values)

    def read(self, max_records: int) -> Records:
        """What is due by now."""
        numbers, dues = self._loop.take(max_records)
        return Records(numbers, self._values.take(numbers), dues) if numbers else NO_RECORDS

    @property
    def finished(self) -> bool:
        """Never: another command may come."""
        return False

    def wait_s(self) -> float:
        """Until the next record, or the next look at the panel."""
        return self._loop.wait_ns() / 1e9


class PanelSink(Sink):
    """Calls the bench's sink function with each item, counts on the panel, and brings the results home at the end."""

    label = "keep"

    def __init__(self, kind: str, panel: str) -> None:
        self._kind = kind
        self._path = panel
        #: On the driver: what each sink task held at the end.
        self.parts: list[dict[str, int]] = []
        self._ctx: TaskContext | None = None

    def open(self, ctx: TaskContext) -> None:
        """Get the panel and a sink function with a memory of its own."""
        self._ctx = ctx
        self._panel = Panel(self._path)
        self._keep, self._counts = keeper(self._kind)

    def write(self, values: list[Any]) -> None:
        """Call the function with each value."""
        collections.deque(map(self._keep, values), maxlen=0)
        if self._ctx is not None:
            self._panel.count_done(self._ctx.task, len(values))

    def close(self) -> None:
        """Send the results."""
        if self._ctx is not None:
            self._ctx.emit_to_driver(self._counts)

    def receive(self, values: Any) -> None:
        """On the driver, keep them."""
        self.parts.append(values)


def flow_of(kind: str, panel: str, values: list[str], tasks: int) -> tuple[Topology, PanelSink, int]:
    """Draw a bench; tells also how many partitions its source has."""
    flow, sink = Topology(kind), PanelSink(kind, panel)
    if kind == "wordcount":
        lines = flow.source(PanelSource(panel, values, 1), name="sentences", tasks=1)
        words = lines.flat_map(split, name="split", tasks=tasks)
        words.key_by(str).count(name="count", tasks=tasks).sink(sink)
        return flow, sink, 1
    stream = flow.source(PanelSource(panel, values, tasks), name="strings", tasks=tasks)
    for step in range(EXCLAIM_STEPS):
        stream = stream.map(exclaim, name=f"exclaim{step + 1}", tasks=tasks)
    stream.sink(sink)
    return flow, sink, tasks
