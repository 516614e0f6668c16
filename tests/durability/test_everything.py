"""Everything at once, from seeds: whatever happens to a query beside its checkpoints does not show in what it gives."""

from __future__ import annotations

import random

import pytest

from . import flows, journals
from .everything import Life

FLOWS = [flows.word_count, flows.final_counts, flows.two_levels, flows.histories, flows.ticks, flows.keyed_ticks]
SEEDS = 2
SEEDS_SOAK = 60


def run(draw, seed: int, policy=None) -> str:
    life = Life(draw.__name__, seed, policy)
    values = life.live(lambda: draw(random.Random(f"{draw.__name__} {seed}")))
    return draw(random.Random(f"{draw.__name__} {seed}")).faults(values)


def run_sinks(seed: int, folder) -> str:
    life = Life("sinks", seed)
    zombies = seed % 2 == 1
    drawn, wanted = journals.counted(random.Random(seed), folder, zombies=zombies)
    values = life.live(
        lambda: journals.counted(random.Random(seed), folder, zombies=zombies)[0], zombies=zombies, drained=False
    )
    drawn.out.receive(values)
    return drawn.faults(wanted, zombies=zombies)


@pytest.mark.parametrize("draw", FLOWS, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_shows(draw, seed):
    assert run(draw, seed) == ""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_shows_to_readers_of_sinks(seed, tmp_path):
    assert run_sinks(seed, tmp_path) == ""


@pytest.mark.soak
@pytest.mark.parametrize("draw", [*FLOWS, flows.kinds, flows.totals, flows.largest], ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("seed", range(SEEDS, SEEDS_SOAK))
def test_nothing_shows_for_many_seeds(draw, seed):
    assert run(draw, seed) == ""


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEEDS, SEEDS_SOAK))
def test_nothing_shows_to_readers_of_sinks_for_many_seeds(seed, tmp_path):
    assert run_sinks(seed, tmp_path) == ""
