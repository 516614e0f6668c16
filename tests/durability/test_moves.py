"""Tasks move while workers are lost, with checkpoints: what comes out is what a run without either gives."""

from __future__ import annotations

import random

import pytest

from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.testing.inprocess import InProcess

from . import flows
from .test_recovery import SETTINGS

FLOWS = [flows.word_count, flows.final_counts, flows.two_levels, flows.histories, flows.ticks]
WORKERS = 3


def move_and_lose(query, rng):
    for _ in range(12):
        query.turns(rng.randint(1, 60))
        if query.brain.state == "ended":
            return
        operations, placement = query.brain.operations, query.brain.placement
        chance = rng.random()
        if chance < 0.6 and query.brain.state == "running" and operations.idle and not query.brain.draining:
            stage = rng.randrange(len(placement))
            wanted = (stage, rng.randrange(len(placement[stage])), rng.randrange(WORKERS))
            operations.move_tasks([wanted], "a test")
        elif chance > 0.85:
            query.kill(rng.randrange(WORKERS))


@pytest.mark.parametrize("draw", FLOWS, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("seed", range(6))
def test_tasks_that_move_between_epochs_do_not_show(draw, seed):
    rng = random.Random(f"{draw.__name__}{seed}")
    drawn, every = draw(rng), Checkpoint("memory", every_s=0.0005)
    with InProcess(
        drawn.flow, workers=WORKERS, settings=SETTINGS, seed=seed, store=MemoryStore(), checkpoint=every
    ) as query:
        move_and_lose(query, rng)
        query.finish()
    assert drawn.faults(drawn.out.values) == ""
