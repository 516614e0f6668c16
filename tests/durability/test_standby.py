"""Workers with standbys are lost at any moment of a run in process: what comes out is what no loss would change."""

from __future__ import annotations

import random

import pytest

from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.errors import StoreFullError
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.config import Settings
from tailrace.testing.inprocess import InProcess

from . import flows

#: Seeds of each topology: one in every run of the tests, many when somebody asks.
SEEDS = 1
SEEDS_SOAK = 60
#: Awaited calls take their time on the clock that is moved by hand, and every turn of it is checked.
QUICK = [draw for draw in flows.ALL if draw is not flows.awaited]
#: Reports, and with them what is known to be complete, come often, and little is under way at a time.
SETTINGS = Settings(progress_s=0.0002, max_pending=24, batch_max=4, slice_us=1)


class FullAtTimes(MemoryStore):
    """Has no room for some manifests, so that their epochs fail after all parts were written."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = random.Random(rng.random())

    def _put_new(self, name: str, data: bytes) -> bool:
        if name.startswith("manifest") and self._rng.random() < 0.2:
            raise StoreFullError("There is no room left.")
        return super()._put_new(name, data)


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


def run(draw, seed: int) -> str:
    rng = random.Random(f"{draw.__name__} {seed}")
    drawn, workers = draw(rng), rng.randint(2, 4)
    every = Checkpoint("memory", every_s=rng.choice([0.0005, 0.002]), standby=1, tolerated_failures=10_000)
    store = FullAtTimes(rng)
    with InProcess(drawn.flow, workers=workers, settings=SETTINGS, seed=seed, store=store, checkpoint=every) as query:
        lose_workers(query, rng, workers)
        query.finish()
    return drawn.faults(drawn.out.values)


@pytest.mark.parametrize("draw", QUICK, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_lost_workers_do_not_show(draw, seed):
    assert run(draw, seed) == ""


@pytest.mark.soak
@pytest.mark.parametrize("draw", flows.ALL, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("seed", range(SEEDS, SEEDS_SOAK))
def test_lost_workers_do_not_show_for_many_seeds(draw, seed):
    assert run(draw, seed) == ""


def until(query: InProcess, condition) -> None:
    while not condition():
        assert query.brain.state != "ended"
        query.turns(1)


def standing(draw, workers: int):
    """A query whose standbys hold the last epoch, and what it draws."""
    drawn = draw(random.Random(3), 2000)
    every = Checkpoint("memory", every_s=0.001, standby=1)
    query = InProcess(drawn.flow, workers=workers, settings=SETTINGS, seed=3, store=MemoryStore(), checkpoint=every)
    query.__enter__()
    followed(query)
    return drawn, query


def followed(query: InProcess) -> None:
    checkpoints, standbys = query.brain.checkpoints, query.brain.recovery.standbys

    def reached() -> bool:
        held = {standbys.reached.get(slot) for slot in standbys.of.values()}
        return checkpoints.durable is not None and held == {checkpoints.durable.epoch}

    until(query, reached)


def test_a_query_goes_on_and_ends_without_the_worker_that_was_lost():
    drawn, query = standing(flows.word_count, 3)
    with query:
        lost = query.brain.placement[-1][0]
        query.kill(lost, comes_back=False)
        assert query.brain.state == "deploying", "nobody is waited for"
        query.finish()
    assert drawn.faults(drawn.out.values) == ""
    assert lost not in {slot for row in query.brain.placement for slot in row}


def test_tasks_go_back_to_the_successor_of_the_worker_that_was_lost():
    drawn, query = standing(flows.histories, 3)
    with query:
        before = [list(row) for row in query.brain.placement]
        query.kill(before[-1][0])
        assert query.brain.placement != before
        until(query, lambda: query.brain.recovery.returns and query.brain.state == "running")
        assert query.brain.placement == before
        (_, back) = query.brain.recovery.told
        assert back.restored["standby"], "its successor held them before it got them"
        query.finish()
    assert drawn.faults(drawn.out.values) == ""
    assert query.brain.restarts == 1


def test_a_worker_that_is_lost_with_its_standby_is_waited_for():
    drawn, query = standing(flows.final_counts, 2)
    with query:
        for slot in (0, 1):
            query.kill(slot, comes_back=False)
        query.turns(20)
        assert query.brain.state == "recovering"
        for slot in (0, 1):
            query.come_back(slot)
        query.finish()
    assert drawn.faults(drawn.out.values) == ""
    assert query.brain.recovery.told[0].restored["store"]


def test_a_deployment_that_was_given_up_is_not_taken_for_the_next():
    """That a worker is open is on its way when another one is lost: it is not open in what begins then."""
    drawn, query = standing(flows.two_levels, 3)
    with query:
        for slot in range(3):
            query.kill(slot)
            query.turns(1)
        query.finish()
    assert drawn.faults(drawn.out.values) == ""
