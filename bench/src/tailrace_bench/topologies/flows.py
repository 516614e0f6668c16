"""The topologies that are placed: log processing, sentiment analysis, throughput test, speed of light.

Workers import this module. Groupings and work follow the papers' descriptions; every stream is drawn as a shuffle or
by key, so that nothing is chained and placement has something to decide. Tuples are (number or time, payload).
"""

from __future__ import annotations

import json
import mmap
import re
import time
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.connect import sinks
from tailrace.topology.contracts import Sink
from tailrace.topology.graph import Topology
from tailrace_bench.flows import PanelSource

from .texts import NEGATIVE, POSITIVE, STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from tailrace.topology.operators import State, TaskContext

TASKS_MAX = 64
#: Entries that one index task keeps of a word, and words.
_POSTINGS_MAX = 100
_CELLS = 2 * TASKS_MAX

_RULE = re.compile(r"^\w+ +\d+ [\d:]+ (?P<host>\S+) (?P<program>[\w()-]+)(?:\[(?P<pid>\d+)\])?: (?P<text>.*)$")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_LEVELS = (("error", ("Failed", "flooding", "invalid")), ("notice", ("Accepted", "opened", "New session")))


# -- log processing ------------------------------------------------------------------------------------------------


def apply_rules(record: tuple[str, int]) -> tuple[str, str, str, str]:
    """Take a line apart: program, level, host and the text without its address."""
    found = _RULE.match(record[0])
    if found is None:
        return "unknown", "info", "", record[0]
    text = found["text"]
    level = next((name for name, signs in _LEVELS if any(sign in text for sign in signs)), "info")
    return found["program"], level, found["host"], _ADDRESS.sub("ADDRESS", text)


class Index(Sink):
    """An inverted index: for each word the newest entries that have it."""

    label = "index"

    def open(self, ctx: TaskContext) -> None:
        """Begin with an empty index."""
        del ctx
        self._postings: dict[str, list[int]] = {}
        self._numbers = count()

    def write(self, values: list[Any]) -> None:
        """Enter each word of each entry."""
        for entry in values:
            number = next(self._numbers)
            for word in set(entry[3].split()):
                found = self._postings.setdefault(word, [])
                found.append(number)
                del found[:-_POSTINGS_MAX]


def log_processing(panel: str, values: list[str], tasks: tuple[int, ...]) -> Topology:
    """Source, rules, then index and counter, which both get every entry."""
    flow = Topology("LP")
    lines = flow.source(PanelSource(panel, values, tasks[0], timed=True), tasks=tasks[0], name="source")
    entries = lines.shuffle().map(apply_rules, tasks=tasks[1], name="rules")
    entries.shuffle().sink(Index(), tasks=tasks[2], name="index")
    entries.key_by(itemgetter(0, 1, 2)).count(tasks=tasks[3], name="counter").sink(sinks.discard(), name="counted")
    return flow


# -- sentiment analysis --------------------------------------------------------------------------------------------


def sensitize(record: tuple[str, int]) -> tuple[int, str]:
    """Read a post and strip everything but letters; its due time stands for its number."""
    return record[1], re.sub(r"[^a-z ]+", " ", json.loads(record[0])["text"].lower())


def clean(post: tuple[int, str]) -> tuple[int, list[str]]:
    """Drop the words that say nothing."""
    return post[0], [word for word in post[1].split() if word not in STOP_WORDS]


class Classifier:
    """Counts words of one mood."""

    def __init__(self, mood: str, words: AbstractSet[str]) -> None:
        self._mood = mood
        self._words = words

    def __call__(self, post: tuple[int, list[str]]) -> tuple[int, str, float]:
        """Score a post."""
        hits = sum(word in self._words for word in post[1])
        return post[0], self._mood, hits / max(1, len(post[1]))


def join_scores(number: int, score: tuple[int, str, float], state: State[Any]) -> list[tuple[int, float, float]]:
    """Wait for both scores of a post."""
    other = state.get()
    if other is None:
        state.set(score)
        return []
    state.clear()
    both = dict((score[1:], other[1:]))
    return [(number, both["positive"], both["negative"])]


class Score(Sink):
    """The larger score wins."""

    label = "score"

    def open(self, ctx: TaskContext) -> None:
        """Nobody has won yet."""
        del ctx
        self.won = {"positive": 0, "negative": 0, "even": 0}

    def write(self, values: list[Any]) -> None:
        """Judge posts."""
        for _, positive, negative in values:
            mood = "even" if positive == negative else "positive" if positive > negative else "negative"
            self.won[mood] += 1


def sentiment(panel: str, values: list[str], tasks: tuple[int, ...]) -> Topology:
    """The whole of it, from the panel's posts."""
    first, each = tasks
    flow = Topology("TSSA")
    sentiment_of(flow.source(PanelSource(panel, values, first, timed=True), tasks=first, name="source"), each)
    return flow


def sentiment_of(read: Any, each: int) -> None:
    """Sensitize, clean, two classifiers that both get every post, join, score."""
    words = read.shuffle().map(sensitize, tasks=each, name="sensitize").shuffle().map(clean, tasks=each, name="clean")
    good = words.shuffle().map(Classifier("positive", POSITIVE), tasks=each, name="positive")
    bad = words.shuffle().map(Classifier("negative", NEGATIVE), tasks=each, name="negative")
    scored = good.union(bad).key_by(itemgetter(0)).process(join_scores, tasks=each, name="join")
    scored.shuffle().sink(Score(), tasks=each, name="score")


# -- throughput test and speed of light ----------------------------------------------------------------------------


class Clockings:
    """Nanoseconds and tuples per sink task, in a file that the tasks write and the bench reads; one writer per cell."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        if create:
            Path(path).write_bytes(bytes(8 * _CELLS))
        with Path(path).open("r+b") as file:
            self._cells = memoryview(mmap.mmap(file.fileno(), 8 * _CELLS)).cast("q")

    def add(self, task: int, nanoseconds: int, tuples: int) -> None:
        """Count tuples in."""
        self._cells[2 * task] += nanoseconds
        self._cells[2 * task + 1] += tuples

    def read(self) -> tuple[int, int]:
        """Nanoseconds and tuples of all tasks so far."""
        return sum(self._cells[::2].tolist()), sum(self._cells[1::2].tolist())


class Anchor(Sink):
    """Counts tuples and notes how long each was on its way, from when it was due."""

    label = "anchor"

    def __init__(self, clockings: str) -> None:
        self._path = clockings

    def open(self, ctx: TaskContext) -> None:
        """Get the cells."""
        self._task = ctx.task
        self._clockings = Clockings(self._path)

    def write(self, values: list[Any]) -> None:
        """Note the time."""
        now_ns = time.monotonic_ns()
        self._clockings.add(self._task, sum(now_ns - due_ns for _, due_ns in values), len(values))


def same(record: tuple[str, int]) -> tuple[str, int]:
    """Pass a tuple on as it is."""
    return record


def relay(
    name: str, panel: str, values: list[str], tasks: tuple[int, ...], bolts: tuple[str, ...], clockings: str
) -> Topology:
    """Source, bolts that pass everything on, and an anchor at the end, all shuffled."""
    flow = Topology(name)
    stream: Any = flow.source(PanelSource(panel, values, tasks[0], timed=True), tasks=tasks[0], name="source")
    for bolt, many in zip(bolts, tasks[1:], strict=False):
        stream = stream.shuffle().map(same, tasks=many, name=bolt)
    stream.shuffle().sink(Anchor(clockings), tasks=tasks[-1], name="anchor")
    return flow
