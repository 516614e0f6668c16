"""Topologies whose outputs are published with the epochs of a checkpoint, and what their readers find."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import tailrace as tr
from tailrace.connect.spool import Spool

from . import flows

if TYPE_CHECKING:
    import random
    from pathlib import Path


class Journal(tr.Sink):
    """A sink of a user's own: what it has not published lies in files beside, one per task and epoch.

    Its staging knows no executions, so only ``abort`` keeps what a lost worker has left from being published.
    """

    label = "journal"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, ctx: Any) -> None:
        self.task = ctx.task
        self.written = self.folder / f"written-{self.task}"
        self.published = self.folder / f"published-{self.task}"

    def write(self, values: list[Any]) -> None:
        with self.written.open("a") as file:
            file.writelines(json.dumps(value) + "\n" for value in values)

    def prepare(self, epoch: int) -> None:
        if self.written.exists():
            self.written.rename(self._staged(epoch))

    def commit(self, epoch: int) -> None:
        if self._staged(epoch).exists():
            with self.published.open("a") as file:
                file.write(self._staged(epoch).read_text())
            self._staged(epoch).unlink()

    def abort(self, epoch: int) -> None:
        self.written.unlink(missing_ok=True)
        for staged in self.folder.glob(f"staged-{self.task}-*"):
            if int(staged.name.rpartition("-")[2]) >= epoch:
                staged.unlink()

    def _staged(self, epoch: int) -> Path:
        return self.folder / f"staged-{self.task}-{epoch}"


class Published(NamedTuple):
    flow: tr.Topology
    out: Any
    folder: Path

    def faults(self, wanted: Counter[str], *, zombies: bool) -> str:
        """What is wrong with what readers find at the end; empty if nothing is."""
        found = {"collect": list(self.out.values), "json_lines": lines_of(self.folder / "lines", "part-*.jsonl")}
        found["table"] = rows_of(self.folder / "table")
        if not zombies:
            found["journal"] = lines_of(self.folder / "journal", "published-*")
        for name, values in found.items():
            if fault := _counts_differ(wanted, values):
                return f"{name}: {fault}"
        hidden = [*(self.folder / "lines").glob("_*"), *(self.folder / "journal").glob("[sw]*")]
        return "" if zombies or not hidden else f"left behind: {hidden}"


def lines_of(folder: Path, pattern: str) -> list[Any]:
    return [tuple(json.loads(line)) for path in folder.glob(pattern) for line in path.read_text().splitlines()]


def rows_of(folder: Path) -> list[Any]:
    spool = Spool(str(folder), "out")
    ranges = [part for number in range(spool.entries()) for part in spool.entry(number).ranges]
    return [tuple(row.values()) for batch in spool.read(ranges) for row in batch.to_pylist()]


def _counts_differ(wanted: Counter[str], values: list[Any]) -> str:
    found = defaultdict(list)
    for word, number in values:
        found[word].append(number)
    for word in wanted.keys() | found.keys():
        if sorted(found[word]) != list(range(1, wanted[word] + 1)):
            return f"of {word!r} {sorted(found[word])} in place of 1 to {wanted[word]}"
    return ""


def counted(rng: random.Random, folder: Path, *, zombies: bool, count: int = 200) -> tuple[Published, Counter[str]]:
    """Every update of every word, into three sinks."""
    flow, out, lines = tr.Topology("published"), tr.sinks.collect(), flows.sentences(rng, count)
    source = flow.source(tr.sources.items(lines, partitions=rng.randint(1, 3)), tasks=rng.randint(1, 2))
    words = source.flat_map(str.split, tasks=rng.randint(1, 2))
    counts = words.key_by(_itself).count(tasks=rng.randint(1, 2), name="counts")
    (folder / "journal").mkdir(parents=True, exist_ok=True)
    counts.sink(out, tasks=rng.randint(1, 2))
    counts.shuffle().sink(tr.sinks.json_lines(folder / "lines"), tasks=rng.randint(1, 2))
    counts.shuffle().sink(tr.sinks.table(folder / "table", "word string, number long"), tasks=rng.randint(1, 2))
    if not zombies:
        counts.sink(Journal(folder / "journal"), tasks=rng.randint(1, 2))
    return Published(flow, out, folder), Counter(word for line in lines for word in line.split())


def _itself(word: str) -> str:
    return word
