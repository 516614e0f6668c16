"""The benches on Bytewax, run by ``arms.bytewax`` in an environment that has it.

Set up as its users would: one source per worker, so that nothing is redistributed that need not be. The word count is
written twice: ``plain``, operator by operator with the same functions that the other arms get, and ``tuned`` by hand to
what Bytewax does best, whole batches. Imports nothing of Tailrace but its neighbours.
"""

# mypy: disable-error-code="misc, import-not-found"
# (Bytewax is not in the environment that the package is checked in.)

from __future__ import annotations

import json
import sys
import time
from array import array
from datetime import datetime, timedelta, timezone
from operator import itemgetter
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax._bytewax import cli_main
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from .child import end_with_parent
from .openloop import OpenLoop
from .panel import Panel
from .work import (
    EXCLAIM_STEPS,
    Values,
    exclaim,
    exclaim_timed,
    keeper,
    read_values,
    split,
    split_timed,
)

#: The sinks of this process by worker; the source of the same worker, in the same thread, has them write times down.
_drains: dict[int, TimedPartition] = {}


class FlowOptions:
    """The script's arguments, a JSON object."""

    kind: str
    panel: str
    values: str
    out: str
    batch: int
    timed: bool
    tuned: bool
    workers: int
    process: int
    addresses: list[str]

    def __init__(self, text: str) -> None:
        self.__dict__.update(json.loads(text))


class Generator(DynamicSource):
    """A source in every worker."""

    def __init__(self, asked: FlowOptions) -> None:
        self._asked = asked

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Part:
        """One worker's part."""
        del step_id
        return Part(self._asked, worker_index, worker_count)


class Part(StatelessSourcePartition):
    """Hands out what is due; with times, each value comes with its own."""

    def __init__(self, asked: FlowOptions, index: int, count: int) -> None:
        self._panel = Panel(asked.panel)
        self._index = index
        self._loop = OpenLoop(self._panel, index, count)
        self._values = Values(read_values(Path(asked.values)))
        self._batch = asked.batch
        self._timed = asked.timed
        self._busy = False

    def next_batch(self) -> list[Any]:
        """At most ``batch`` values."""
        if self._loop.ended:
            raise StopIteration
        if self._panel.is_asked(self._index):
            _drains[self._index].write_times()
            self._panel.answer(self._index)
        numbers, dues = self._loop.take(self._batch)
        self._busy = bool(numbers)
        values = self._values.take(numbers) if numbers else []
        return list(zip(values, dues or [0] * len(values), strict=True)) if self._timed else values

    def next_awake(self) -> datetime | None:
        """At once while there is something, else when the next record is due."""
        wait_ns = 0 if self._busy and not self._timed else self._loop.wait_ns()
        return datetime.now(timezone.utc) + timedelta(microseconds=wait_ns / 1000) if wait_ns else None


class TimedOutput(DynamicSink):
    """A sink in every worker."""

    def __init__(self, asked: FlowOptions) -> None:
        self._asked = asked

    def build(self, step_id: str, worker_index: int, worker_count: int) -> TimedPartition:
        """One worker's sink."""
        del step_id, worker_count
        return TimedPartition(self._asked, worker_index)


class TimedPartition(StatelessSinkPartition):
    """Gives each item to the bench's sink function; with times, notes when a record's last item came."""

    def __init__(self, asked: FlowOptions, index: int) -> None:
        self._panel = Panel(asked.panel)
        self._index = index
        self._keep, self._counts = keeper(asked.kind)
        self._timed = asked.timed
        self._wordcount = asked.kind == "wordcount"
        self._last: dict[int, int] = {}
        self._out = f"{asked.out}.{index}"
        _drains[index] = self

    def write_batch(self, items: list[Any]) -> None:
        """Take items in."""
        keep = self._keep
        if not self._timed:
            for item in items:
                keep(item)
        else:
            last, now_ns = self._last, time.monotonic_ns()
            for item in items:
                if self._wordcount:
                    word, (count, due_ns) = item
                    keep((word, count))
                else:
                    text, due_ns = item
                    keep(text)
                last[due_ns] = now_ns
        self._panel.count_done(self._index, len(items))

    def close(self) -> None:
        """Leave the counts for the bench."""
        Path(f"{self._out}.counts").write_text(json.dumps(self._counts), encoding="utf-8")

    def write_times(self) -> None:
        """Leave for the bench when each record was due and when its last item came, and begin again."""
        times = array("q")
        for pair in self._last.items():
            times.extend(pair)
        self._last.clear()
        Path(f"{self._out}.times").write_bytes(times.tobytes())


# -- plain: the functions of the other arms, one operator each -------------------------------------------------------


def count(state: int | None, word: str) -> tuple[int, int]:
    """One more of this word."""
    del word
    made = (state or 0) + 1
    return made, made


def count_timed(state: int | None, pair: tuple[str, int]) -> tuple[int, tuple[int, int]]:
    """One more of this word, with its due time."""
    made = (state or 0) + 1
    return made, (made, pair[1])


def plain(stream: Any, *, timed: bool) -> Any:
    """Split, key, count."""
    words = op.flat_map("split", stream, split_timed if timed else split)
    keyed = op.key_on("key", words, itemgetter(0) if timed else str)
    return op.stateful_map("count", keyed, count_timed if timed else count)


# -- tuned: whole batches, fewer operators ---------------------------------------------------------------------------


class WordCounter(StatefulBatchLogic):
    """Counts one word."""

    def __init__(self) -> None:
        self._count = 0

    def on_batch(self, values: list[None]) -> tuple[list[int], bool]:
        """A count for every value."""
        first = self._count + 1
        self._count += len(values)
        return list(range(first, self._count + 1)), False

    def snapshot(self) -> int:
        """What recovery would keep."""
        return self._count


def split_keyed(sentences: list[str]) -> list[tuple[str, None]]:
    """Split, each word as its own key."""
    return [(word, None) for sentence in sentences for word in split(sentence)]


def tuned(stream: Any) -> Any:
    """Split and key at once, count in batches."""
    return op.stateful_batch("count", op.flat_map_batch("split", stream, split_keyed), lambda _: WordCounter())


def dataflow(asked: FlowOptions) -> Dataflow:
    """Draw the bench."""
    flow = Dataflow(asked.kind)
    stream = op.input("in", flow, Generator(asked))
    if asked.kind == "wordcount":
        stream = tuned(stream) if asked.tuned else plain(stream, timed=asked.timed)
    else:
        for step in range(EXCLAIM_STEPS):
            stream = op.map(f"exclaim{step}", stream, exclaim_timed if asked.timed else exclaim)
    op.output("out", stream, TimedOutput(asked))
    return flow


if __name__ == "__main__":
    end_with_parent()
    given = FlowOptions(sys.argv[1])
    several = {"process_id": given.process, "addresses": given.addresses} if given.addresses else {}
    cli_main(dataflow(given), workers_per_process=given.workers, epoch_interval=timedelta(seconds=10), **several)
