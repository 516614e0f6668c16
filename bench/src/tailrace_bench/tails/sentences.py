"""Hone's word count for the bench of the gate: timed sentences of 1 to n words, a split and a count that keeps times.

Each word carries when its sentence was due and which task split it; the count writes both down with the time of its
arrival, to a file of its task in the bench's folder. Workers import this module.
"""

from __future__ import annotations

import random
import time
from array import array
from collections import Counter
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.batch import Batch, numbers
from tailrace.connect import sinks
from tailrace.data import wiki_path
from tailrace.topology.contracts import NO_RECORDS, Reader, Records, Source
from tailrace.topology.graph import Topology
from tailrace.topology.operators import KeyedOperator, Operator
from tailrace.transport import codec, wire

from .flows import Poisson

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace.topology.operators import State, TaskContext

TASKS = 10
#: A word's row in the files of times: when its sentence was due, when the word was counted, which task split it.
ROW_PLACES = 3
_ROWS_KEPT = 512
#: A time of the machine's clock, as far as its length in bytes goes.
_SOME_NS = 1 << 42


@lru_cache(maxsize=1)
def words() -> list[str]:
    """All words of the excerpt that ships with the package."""
    return wiki_path().read_text(encoding="utf-8").split()


def bytes_per_word() -> float:
    """What a word takes on the link when it is sent by itself."""
    text = words()
    payloads = sum(len(codec.encode_batch(Batch([(word, _SOME_NS, 0)], None, numbers()))) for word in text)
    return wire.FRAME_HEAD_BYTES + payloads / len(text)


class Sentences(Source[tuple[int, int, str]]):
    """Sentences at random times; each names a random task for those who want to be dealt at random."""

    label = "sentences"
    bounded = False

    def __init__(self, per_s: float, words_max: int, seed: int) -> None:
        self._times = Poisson(per_s / TASKS, TASKS, seed)
        self._words_max = words_max
        self._salt = f"{seed},{words_max}"

    def partitions(self) -> list[str]:
        """One per source task."""
        return self._times.partitions()

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Begin; a bench that loses a worker is void, so there is no going on from an offset."""
        rng = random.Random(f"{self._salt},{partition}")  # noqa: S311 - it makes sentences, nothing secret
        return _SentenceReader(self._times.open(partition, offset, clock), rng, self._words_max)


class _SentenceReader(Reader):
    finished = False

    def __init__(self, inner: Reader, rng: random.Random, words_max: int) -> None:
        self._inner = inner
        self._rng = rng
        self._words_max = words_max
        self._words = words()

    def read(self, max_records: int) -> Records:
        """What is due by now: task, due time and text of each."""
        records = self._inner.read(max_records)
        if not records.values:
            return NO_RECORDS
        dues_ns = records.due_ns or ()
        return Records(records.offsets, [(self._rng.randrange(TASKS), due, self._text()) for due in dues_ns], dues_ns)

    def _text(self) -> str:
        length = self._rng.randint(1, self._words_max)
        begin = self._rng.randrange(len(self._words) - length)
        return " ".join(self._words[begin : begin + length])

    def wait_s(self) -> float:
        """Until the next one is due."""
        return self._inner.wait_s()


class SentenceSplit(Operator):
    """Words out of sentences."""

    def open(self, ctx: TaskContext) -> None:
        """Learn which task this is."""
        self._task = ctx.task

    def process(self, *args: Any, **kwargs: Any) -> list[tuple[str, int, int]]:
        """Give each word with the sentence's due time and this task."""
        del kwargs
        _, due_ns, text = args[0]
        return [(word, due_ns, self._task) for word in text.split()]


class _Times:
    """Writes rows of times to the file of a task."""

    def __init__(self, folder: str, task: int) -> None:
        self._file = Path(folder, f"{task}.times").open("ab", buffering=0)  # noqa: SIM115 - until close
        self._rows = array("q")

    def note(self, due_ns: int, split: int) -> None:
        self._rows.extend((due_ns, time.monotonic_ns(), split))
        if len(self._rows) >= _ROWS_KEPT * ROW_PLACES:
            self.flush()

    def flush(self) -> None:
        self._file.write(self._rows.tobytes())
        del self._rows[:]

    def close(self) -> None:
        self.flush()
        self._file.close()


class TaskCount(Operator):
    """Counts the words that any task may get, each task its own."""

    tick_every_s = 0.2

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def open(self, ctx: TaskContext) -> None:
        """Open the file of times."""
        self._times = _Times(self._folder, ctx.task)
        self._counts: Counter[str] = Counter()

    def process(self, *args: Any, **kwargs: Any) -> None:
        """Count a word."""
        del kwargs
        word, due_ns, split = args[0]
        self._counts[word] += 1
        self._times.note(due_ns, split)

    def tick(self, now_s: float) -> None:
        """Write down what came."""
        del now_s
        self._times.flush()

    def close(self) -> None:
        """Close the file."""
        self._times.close()


class CountByKey(KeyedOperator):
    """Counts the words of its keys; under partial keys each of a word's two tasks has its part."""

    two_choices = True
    tick_every_s = 0.2

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def open(self, ctx: TaskContext) -> None:
        """Open the file of times."""
        self._times = _Times(self._folder, ctx.task)

    def process(self, *args: Any, **kwargs: Any) -> None:
        """Count a word."""
        del kwargs
        state: State[int] = args[2]
        state.set((state.get() or 0) + 1)
        self._times.note(*args[1][1:])

    def tick(self, now_s: float) -> None:
        """Write down what came."""
        del now_s
        self._times.flush()

    def close(self) -> None:
        """Close the file."""
        self._times.close()


class SentenceLoad(NamedTuple):
    """Sentences per second in all, how many words they may have, and how they are dealt to the split tasks."""

    per_s: float
    words_max: int = 32
    in_turn: bool = False

    @property
    def words_per_s(self) -> float:
        """Words on average."""
        return self.per_s * (1 + self.words_max) / 2


def word_count(load: SentenceLoad, grouping: str, folder: str, seed: int) -> Topology:
    """Source, split and count of ten tasks each; words go to the count by ``shuffle`` or ``fields``."""
    flow = Topology("hone")
    source = flow.source(Sentences(load.per_s, load.words_max, seed), name="sentences", tasks=TASKS)
    dealt = source.shuffle() if load.in_turn else source.group_by(_named)
    split = dealt.process(SentenceSplit, name="split", tasks=TASKS)
    if grouping == "shuffle":
        counted = split.shuffle().process(TaskCount(folder), name="count", tasks=TASKS)
    else:
        counted = split.key_by(itemgetter(0)).process(CountByKey(folder), name="count", tasks=TASKS)
    counted.sink(sinks.discard(), name="end", tasks=TASKS)
    return flow


def _named(value: tuple[int, int, str], tasks: int) -> int:
    return value[0] % tasks
