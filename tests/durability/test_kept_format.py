"""A checkpoint that an earlier commit wrote is resumed exactly; ``kept`` says how it was made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import tailrace as tr
from tailrace.checkpoint.errors import TopologyChangedError
from tailrace.checkpoint.log import ManifestLog
from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.testing.inprocess import InProcess

from . import kept

FOLDER = Path(__file__).parents[1] / "data" / "checkpoint-format-1"
# In it are functions of tr.split, which that commit took for state; only the Python that wrote them reads them.
pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="written by Python 3.11, with functions in it")


def store_of_then():
    store = MemoryStore()
    for file in (*(FOLDER / "manifests").iterdir(), *(FOLDER / "parts").iterdir()):
        store.put_new(f"{file.parent.name}/{file.name}", file.read_bytes())
    return store


def faults(query, totals):
    """What is wrong with what came out before and after; what was on its way at the cut comes again by its number."""
    given = json.loads((FOLDER / "given.json").read_text())
    came = {
        name: [*[row for row in given[name] if row[:2] not in [[*new[:2]] for new in rows]], *rows]
        for name, rows in query._collected.items()
    }
    wanted = [(key, at + 1) for key in range(7) for at in range(len(range(key, len(kept.NUMBERS), 7)))]
    found = sorted(tuple(pair) for _, _, pair in came["counted"])
    total = sum(number for _, number in wanted)
    summed = sum(told for _, _, (_, told) in came["summed"])
    return [
        text
        for text, wrong in (
            (f"counts {found}", found != wanted),
            (f"sums {summed} in place of {total}", summed != total),
            (f"totals {totals.values[-1:]}", totals.values[-1] != sum(kept.NUMBERS)),
        )
        if wrong
    ]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_checkpoint_of_the_first_format_goes_on(workers, seed):
    store, (flow, *_, totals) = store_of_then(), kept.flow()
    before = ManifestLog(store).newest().manifest
    assert any(0 < row.mark < row.offset for row in before.partitions)  # in the midst of things
    every = Checkpoint("memory", every_s=0.001)
    with InProcess(flow, workers=workers, settings=kept.SETTINGS, seed=seed, store=store, checkpoint=every) as query:
        query.turns(20 * seed)
        query.kill(seed % workers)
        query.finish()
    assert faults(query, totals) == []


def test_it_is_restored_into_another_checkpoint_as_a_savepoint_is(tmp_path):
    flow, *_, totals = kept.flow()
    with InProcess(flow, workers=2, settings=kept.SETTINGS, store=MemoryStore(), restore=tr.Savepoint(FOLDER)) as query:
        query.finish()
    assert faults(query, totals) == []
    wider, *_ = kept.flow()
    with pytest.raises(TopologyChangedError, match="in flight"):
        InProcess(
            wider, settings=kept.SETTINGS, store=MemoryStore(), restore=tr.Savepoint(FOLDER, migrate={"counts": max})
        )
