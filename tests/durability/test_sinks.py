"""Sinks that publish with epochs: whatever is lost, readers find each output once and nothing else."""

from __future__ import annotations

import contextlib
import random

import pytest

import tailrace as tr
from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.errors import StoreUnreachableError
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.coordinator.errors import StateLostError
from tailrace.errors import TailraceError
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


def move_some(query: InProcess, rng: random.Random, workers: int) -> None:
    """Let sinks go on at other workers, where that can be asked for now."""
    stages = [stage for stage in query.brain.program.plan.stages if stage.head.kind == "sink"]
    wanted = [(stage.id, rng.randrange(stage.tasks), rng.randrange(workers)) for stage in stages]
    with contextlib.suppress(TailraceError):
        query.brain.operations.move_tasks(wanted, "a test asks")


def lose(query: InProcess, rng: random.Random, workers: int, *, zombies: bool, moves: bool) -> None:
    for _ in range(rng.randint(0, 4)):
        if moves:
            query.turns(rng.randint(20, 60))
            move_some(query, rng, workers)
        query.turns(rng.randint(1, 120))
        if query.brain.state == "ended":
            return
        if moves and rng.random() < 0.6:
            continue
        slot = rng.randrange(workers)
        query.cut_off(slot) if zombies and rng.random() < 0.5 else query.kill(slot)


def run(seed: int, folder, *, zombies: bool, drivers: int, refuses: float, moves: bool = False) -> str:
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
            lose(query, rng, workers, zombies=zombies, moves=moves)
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


@pytest.mark.parametrize("seed", range(SEEDS))
def test_sinks_that_move_hand_over_what_they_have_written(seed, tmp_path):
    assert run(seed, tmp_path, zombies=False, drivers=2, refuses=0.1, moves=True) == ""


def test_without_a_checkpoint_a_sink_publishes_at_its_end(tmp_path):
    drawn, wanted = unsafe(tmp_path)
    with InProcess(drawn.flow, workers=2, settings=SETTINGS) as query:
        query.turns(30)
        assert not list((tmp_path / "journal").glob("published-*"))
        query.finish()
    assert sorted(journals.lines_of(tmp_path / "journal", "published-*")) == wanted


def test_what_it_held_until_then_is_not_lost_in_silence(tmp_path):
    drawn, _ = unsafe(tmp_path)
    with InProcess(drawn.flow, workers=2, settings=SETTINGS) as query:
        query.turns(30)
        query.kill(0)
        with pytest.raises(StateLostError, match="journal"):
            query.finish()


def unsafe(folder):
    """A sink that has something to publish, in a query without a checkpoint."""
    (folder / "journal").mkdir()
    flow = tr.Topology("unsafe")
    pairs = [("a", number) for number in range(300)]
    source = flow.source(tr.sources.items(pairs)).shuffle()
    source.sink(journals.Journal(folder / "journal"), tasks=2)
    return journals.Published(flow, None, folder), pairs
