"""Chains of parts are merged while workers are lost at any moment: nothing shows, and no chain grows without end."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import tailrace as tr
from tailrace.checkpoint.log import ManifestLog
from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.config import Settings
from tailrace.coordinator import chains
from tailrace.testing.inprocess import InProcess

from . import flows

#: Seeds of each topology: few in every run of the tests, many when somebody asks.
SEEDS = 4
SEEDS_SOAK = 60
_KEYS = 60
#: Reports, and with them what is known to be complete, come often, and little is under way at a time.
SETTINGS = Settings(progress_s=0.0002, max_pending=24, batch_max=4, slice_us=1)


class Visits(tr.KeyedOperator):
    """Counts the visits of a key since it was forgotten, which it is with every third."""

    def process(self, key: Any, value: int, state: Any) -> Any:
        seen = (state.get() or 0) + 1
        state.set(seen) if seen < 3 else state.clear()
        return [(key, seen)]


def visits(rng: random.Random, count: int = 800) -> flows.Drawn:
    """Keys that come some times together, then not for long: what parts tell of one must be right for long."""
    flow, out = tr.Topology("visits"), tr.sinks.collect()
    drawn = [(at // 6 + rng.randrange(4)) % _KEYS for at in range(count)]
    keyed = flow.source(tr.sources.items(drawn, partitions=2)).key_by(lambda number: number)
    keyed.process(Visits(), tasks=rng.randint(1, 2), name="visits").sink(out)
    wanted = sorted((key, 1 + at % 3) for key, times in Counter(drawn).items() for at in range(times))

    def faults(values: list[Any]) -> str:
        return "" if sorted(values) == wanted else f"wanted {wanted}, found {sorted(values)}"

    return flows.Drawn(flow, out, faults)


#: There is nothing to be merged where no state is by key.
KEYED = [visits, flows.histories, flows.kinds, flows.word_count]


class Retired(MemoryStore):
    """Removes what no entry needs with each entry, as a publisher does."""

    def _put_new(self, name: str, data: bytes) -> bool:
        made = super()._put_new(name, data)
        if name.startswith("manifests"):
            ManifestLog(self).retire(1)
        return made


def lose_workers(query: InProcess, rng: random.Random, workers: int) -> None:
    """Lose one at times, at times all: those load what they have from their chains."""
    for _ in range(rng.randint(2, 12)):
        query.turns(rng.randint(40, 300))
        for slot in rng.sample(range(workers), rng.choice([1, workers, workers])):
            if query.brain.state == "ended":
                return
            query.kill(slot) if rng.random() < 0.9 else query.cut_off(slot)


def run(draw, seed: int) -> tuple[str, int]:
    """What is wrong with what came out, and how often parts were merged."""
    rng = random.Random(f"{draw.__name__} {seed}")
    drawn, workers = draw(rng), rng.randint(1, 3)
    every = Checkpoint("memory", every_s=rng.choice([0.0001, 0.0003]), standby=rng.choice([0, 1]), chain_max=3)
    with InProcess(
        drawn.flow, workers=workers, settings=SETTINGS, seed=seed, store=Retired(), checkpoint=every
    ) as query:
        lose_workers(query, rng, workers)
        query.finish()
        return drawn.faults(drawn.out.values), query.brain.checkpoints.chains.merges


@pytest.mark.parametrize("draw", KEYED, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("ahead", [1, 3, 32])
def test_lost_workers_do_not_show_where_parts_are_merged(draw, ahead, monkeypatch):
    monkeypatch.setattr(chains, "_AHEAD", ahead)
    runs = [run(draw, seed) for seed in range(SEEDS)]
    assert [faults for faults, _ in runs] == [""] * SEEDS
    assert sum(merges for _, merges in runs) > 0


@pytest.mark.soak
@pytest.mark.parametrize("draw", KEYED, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("seed", range(SEEDS, SEEDS_SOAK))
@pytest.mark.parametrize("ahead", [1, 3, 32])
def test_lost_workers_do_not_show_for_many_seeds(draw, seed, ahead, monkeypatch):
    monkeypatch.setattr(chains, "_AHEAD", ahead)
    assert run(draw, seed)[0] == ""
