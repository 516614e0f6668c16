"""The demo's topology, and the same count as a plain Python loop to hold it against.

Workers import this module for ``Tally``, so it needs neither typer nor rich.
"""

from __future__ import annotations

import collections
import time
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from tailrace.connect import sources
from tailrace.data import wiki_path
from tailrace.topology.contracts import Sink
from tailrace.topology.graph import Topology

from .errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.testing.chaos import Knobs
    from tailrace.topology.operators import TaskContext

_WRONG_SHOWN_MAX = 5


class Tally(Sink):
    """Keeps the newest count of every word in its task and hands all of them to the driver when the task ends."""

    label = "tally"

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        #: On the driver: when the last task's counts came.
        self.ended_s = 0.0
        self._ctx: TaskContext | None = None

    def open(self, ctx: TaskContext) -> None:
        """Remember the way to the driver."""
        self._ctx = ctx

    def write(self, values: list[Any]) -> None:
        """Take pairs of word and count in; a word's counts come in order."""
        self.counts.update(values)

    def snapshot(self) -> dict[str, Any]:
        """The counts are all that it must know to go on elsewhere."""
        return {"counts": self.counts}

    def close(self) -> None:
        """Send the counts."""
        if self._ctx is not None:
            self._ctx.emit_to_driver(list(self.counts.items()))

    def receive(self, values: Any) -> None:
        """On the driver, put the tasks' counts together; a word lives in one task only."""
        self.counts.update(values)
        self.ended_s = time.monotonic()


def sentences() -> list[str]:
    """Read the excerpt that ships with the package."""
    with wiki_path().open(encoding="utf-8") as text:
        return [line.rstrip("\n") for line in text]


class Split:
    """Splits a sentence; takes its time over it, which a slow worker takes longer for."""

    def __init__(self, knobs: Knobs, work_s: float) -> None:
        self._knobs = knobs
        self._work_s = work_s

    def __call__(self, sentence: str) -> list[str]:
        """Wait, then split."""
        self._knobs.wait(self._work_s)
        return sentence.split()


def word_count(
    rate: float, count: int, tasks: int, knobs: Knobs | None = None, work_s: float = 0.0
) -> tuple[Topology, Tally]:
    """Draw the demo: ``count`` sentences at a steady rate, whether or not the topology keeps up.

    With ``knobs``, splitting a sentence takes a while, and longer at a worker that they make slow.
    """
    flow = Topology("wordcount")
    lines = flow.source(sources.rate(rate, values=sentences(), count=count), name="sentences").shuffle()
    tally = Tally()
    split = str.split if knobs is None else Split(knobs, work_s)
    words = lines.flat_map(split, name="split", tasks=tasks, blocking=knobs is not None)
    words.key_by(str).count(name="count", tasks=tasks).sink(tally)
    return flow, tally


def check_counts(found: Mapping[str, int], expected: collections.Counter[str]) -> None:
    """Hold every count against the plain loop's."""
    wrong = [word for word in found.keys() | expected.keys() if found.get(word, 0) != expected[word]]
    if wrong:
        some = ", ".join(f"{word!r} {found.get(word, 0)} for {expected[word]}" for word in wrong[:_WRONG_SHOWN_MAX])
        raise DemoError(
            f"{len(wrong):,} of {len(expected):,} counts differ from those of a plain Python loop: {some}.",
            "Please report this, with the output of tailrace --debug demo.",
        )


def plain_count(count: int) -> collections.Counter[str]:
    """Count the words of the first sentences, the excerpt over and over, in a loop."""
    counts: collections.Counter[str] = collections.Counter()
    for sentence in islice(cycle(sentences()), count):
        counts.update(sentence.split())
    return counts
