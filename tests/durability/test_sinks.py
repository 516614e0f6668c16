"""Sinks that publish with epochs: whatever is lost, readers find each output once and nothing else."""

from __future__ import annotations

import random

import pytest

from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.errors import StoreUnreachableError
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.testing.inprocess import InProcess

from . import journals
from .test_recovery import SETTINGS

#: Seeds of each kind of loss.
SEEDS = 7


class MoodyStore(MemoryStore):
    """Refuses some writes, so that some epochs fail."""

    def __init__(self, rng: random.Random, refuses: float) -> None:
        super().__init__()
        self._rng = rng
        self.refuses = refuses

    def _put_new(self, name: str, data: bytes) -> bool:
        if self._rng.random() < self.refuses:
            raise StoreUnreachableError("The store is in a mood.", "Try again.")
        return super()._put_new(name, data)


def lose(query: InProcess, rng: random.Random, workers: int, *, zombies: bool) -> None:
    for _ in range(rng.randint(0, 4)):
        query.turns(rng.randint(1, 120))
        if query.brain.state == "ended":
            return
        slot = rng.randrange(workers)
        query.cut_off(slot) if zombies and rng.random() < 0.5 else query.kill(slot)


def run(seed: int, folder, *, zombies: bool, drivers: int, refuses: float) -> str:
    rng = random.Random(f"sinks {seed} {zombies} {drivers} {refuses}")
    shape, workers = rng.random(), rng.randint(1, 3)
    store = MoodyStore(rng, 0.0)
    every = Checkpoint("memory", every_s=rng.choice([0.0001, 0.0005, 0.002]), tolerated_failures=10_000)
    for left in reversed(range(drivers)):
        drawn, wanted = journals.counted(random.Random(shape), folder, zombies=zombies)
        store.refuses = 0.0
        query = InProcess(drawn.flow, workers=workers, settings=SETTINGS, seed=seed, store=store, checkpoint=every)
        store.refuses = refuses
        with query:
            lose(query, rng, workers, zombies=zombies)
            if not left:
                query.finish()
            elif query.brain.state == "ended":
                break
    return drawn.faults(wanted, zombies=zombies)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_lost_workers_do_not_show(seed, tmp_path):
    assert run(seed, tmp_path, zombies=False, drivers=1, refuses=0.0) == ""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_workers_that_were_taken_for_dead_do_not_show(seed, tmp_path):
    assert run(seed, tmp_path, zombies=True, drivers=1, refuses=0.0) == ""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_failed_epochs_and_lost_drivers_do_not_show(seed, tmp_path):
    assert run(seed, tmp_path, zombies=seed % 2 == 1, drivers=3, refuses=0.15) == ""
