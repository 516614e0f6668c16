"""Workers with standbys are lost at any moment of a run in process: what comes out is what no loss would change."""

from __future__ import annotations

import random

import pytest

from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.config import Settings
from tailrace.testing.inprocess import InProcess

from . import flows

SEEDS = 12
#: Reports, and with them what is known to be complete, come often, and little is under way at a time.
SETTINGS = Settings(progress_s=0.0002, max_pending=24, batch_max=4, slice_us=1)


def lose_workers(query: InProcess, rng: random.Random, workers: int) -> None:
    """Lose some one after the other, some together; let some come back late, maybe in the midst of another recovery."""
    for _ in range(rng.randint(1, 5)):
        query.turns(rng.randint(1, 120))
        for slot in rng.sample(range(workers), rng.choice([1, 1, 1, 2]) if workers > 1 else 1):
            if query.brain.state == "ended":
                return
            if not query.is_here(slot):
                query.come_back(slot)
            elif rng.random() < 0.2:
                query.cut_off(slot)
            else:
                query.kill(slot, comes_back=rng.random() < 0.5)
    query.turns(rng.randint(1, 60))
    here = [slot for slot in range(workers) if query.is_here(slot)]
    for slot in range(workers):
        # Whoever a standby lives for need not come back at all.
        if slot not in here and query.brain.state != "ended" and (not here or rng.random() < 0.5 or waits(query)):
            query.come_back(slot)


def waits(query: InProcess) -> bool:
    return query.brain.state == "recovering"


def run(draw, seed: int) -> tuple[str, InProcess]:
    rng = random.Random(f"{draw.__name__} {seed}")
    drawn, workers = draw(rng), rng.randint(2, 4)
    every = Checkpoint("memory", every_s=rng.choice([0.0005, 0.002]), standby=1)
    with InProcess(
        drawn.flow, workers=workers, settings=SETTINGS, seed=seed, store=MemoryStore(), checkpoint=every
    ) as query:
        lose_workers(query, rng, workers)
        query.finish()
    return drawn.faults(drawn.out.values), query


@pytest.mark.parametrize("draw", flows.ALL, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_lost_workers_do_not_show(draw, seed):
    faults, _ = run(draw, seed)
    assert faults == ""
