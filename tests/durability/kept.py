"""A checkpoint as an earlier commit wrote it, kept as test data: the topology, and the script that wrote it.

``python -m tests.durability.kept FOLDER`` runs the topology in process, leaves it in its midst, and writes the
checkpoint that is there then, with what had come out by its epoch. It was run once at the first commit that had
checkpoints (5130449), into ``tests/data/checkpoint-format-1``; a later format gets a folder of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tailrace as tr
from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.config import Settings
from tailrace.testing.inprocess import InProcess

NUMBERS = list(range(120))
SETTINGS = Settings(max_pending=12, batch_max=4, slice_us=1)


class Sums(tr.Operator):
    """Adds up what it gets and tells about it by and by."""

    tick_every_s = 0.0007

    def __init__(self) -> None:
        self.held = 0

    def process(self, value: Any) -> None:
        self.held += value[1]

    def tick(self, now_s: float) -> Any:
        return self.close()

    def close(self) -> Any:
        told, self.held = self.held, 0
        return [("sum", told)] if told else None


def flow() -> tuple[tr.Topology, Any, Any, Any]:
    """Counts and lists of values per key, sums of ticks, and ``tr.split``."""
    drawn, counts, sums, totals = tr.Topology("kept"), tr.sinks.collect(), tr.sinks.collect(), tr.sinks.collect()
    numbers = drawn.source(tr.sources.items(NUMBERS, partitions=2), tasks=2, name="numbers").map(_itself, tasks=2)
    counted = numbers.key_by(_modulo).count(tasks=2, name="counts")
    counted.sink(counts, name="counted")
    counted.shuffle().process(Sums(), tasks=2, name="sums").sink(sums, name="summed")
    listed = numbers.key_by(_modulo).aggregate(list, _with, tasks=3, name="lists")
    tr.split.total(listed.map(_newest, tasks=2), tasks=2).sink(totals, name="totalled")
    return drawn, counts, sums, totals


def write(folder: Path) -> None:
    """Leave a run in its midst, and write what it leaves."""
    store, (drawn, *_) = MemoryStore(), flow()
    every = Checkpoint("memory", every_s=0.0005, keep=1)
    with InProcess(drawn, workers=2, settings=SETTINGS, seed=3, store=store, checkpoint=every) as query:
        durable = query.brain.checkpoints.durable
        while durable is None or sum(row.mark for row in durable.partitions[:2]) < len(NUMBERS):
            query.turns(1)
            durable = query.brain.checkpoints.durable
        # What came out later is not part of the checkpoint, and comes again; so does what was on its way at the cut.
        rows = {
            name: [row for row in found if row[1] < durable.numbers.get(f"{name}/{row[0]}", 0)]
            for name, found in query._collected.items()
        }
    for each in store.list():
        (folder / each.name).parent.mkdir(parents=True, exist_ok=True)
        if each.name in durable.objects or each.name == f"manifests/{durable.number:010d}":
            (folder / each.name).write_bytes(store.get(each.name))
    (folder / "given.json").write_text(json.dumps(rows))


def _itself(value: Any) -> Any:
    return value


def _modulo(number: int) -> int:
    return number % 7


def _with(held: list[int], value: int) -> list[int]:
    return [*held, value]


def _newest(pair: tuple[int, list[int]]) -> int:
    return pair[1][-1]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
