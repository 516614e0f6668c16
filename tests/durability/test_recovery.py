"""Workers are lost at any moment of a run in process: what comes out is what a run without losses gives."""

from __future__ import annotations

import dataclasses
import random

import pytest

from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.config import Settings
from tailrace.testing.inprocess import InProcess

from . import flows

#: Seeds of each topology: few in every run of the tests, many when somebody asks.
SEEDS = 12


#: Reports, and with them what is known to be complete, come often, and little is under way at a time.
SETTINGS = Settings(progress_s=0.0002, max_pending=24, batch_max=4, slice_us=1)


def lose_workers(query: InProcess, rng: random.Random, workers: int) -> None:
    for _ in range(rng.randint(0, 6)):
        query.turns(rng.randint(1, 120))
        if query.brain.state == "ended":
            return
        query.kill(rng.randrange(workers)) if rng.random() < 0.8 else query.cut_off(rng.randrange(workers))


#: The same, with room in memory for next to nothing.
ON_DISK = dataclasses.replace(SETTINGS, state_backend="disk", state_cache_keys=1)


def run(draw, seed: int, settings: Settings = SETTINGS) -> str:
    rng = random.Random(f"{draw.__name__} {seed}")
    drawn, workers = draw(rng), rng.randint(1, 3)
    every = Checkpoint("memory", every_s=rng.choice([0.0001, 0.0005, 0.002]))
    with InProcess(
        drawn.flow, workers=workers, settings=settings, seed=seed, store=MemoryStore(), checkpoint=every
    ) as query:
        lose_workers(query, rng, workers)
        query.finish()
    return drawn.faults(drawn.out.values)


@pytest.mark.parametrize(
    "draw", [draw for draw in flows.ALL if draw is not flows.awaited], ids=lambda draw: draw.__name__
)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_lost_workers_do_not_show(draw, seed):
    assert run(draw, seed) == ""


@pytest.mark.parametrize("seed", range(3))
def test_lost_workers_do_not_show_where_calls_are_out(seed):
    """Few: what is awaited takes real time."""
    assert run(flows.awaited, seed) == ""


@pytest.mark.parametrize(
    "draw", [flows.final_counts, flows.two_levels, flows.histories, flows.kinds], ids=lambda draw: draw.__name__
)
@pytest.mark.parametrize("seed", range(4))
def test_lost_workers_do_not_show_in_state_on_disk(draw, seed):
    assert run(draw, seed, ON_DISK) == ""
