"""Runs in process are stopped with a savepoint at any moment, under losses, and go on from it in another shape."""

from __future__ import annotations

import random

import pytest

import tailrace as tr
from tailrace.checkpoint.errors import NotDividedError
from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.config import Policy
from tailrace.testing.inprocess import InProcess

from . import flows
from .test_recovery import SETTINGS, lose_workers

#: Seeds of each topology: few in every run of the tests, many when somebody asks.
SEEDS = (1, 3, 5)
#: So many times a savepoint is waited for.
WAITS_MAX = 400
QUICK = [draw for draw in flows.ALL if draw is not flows.awaited]


def begin(draw, seed, tasks, *, tasks_max=3, policy=None, drawing=None, **more):
    """A run of a topology whose input hangs on the seed alone, and its task counts on ``tasks``."""
    same = flows.SameInput(f"{draw.__name__} {seed}", random.Random(f"{seed} {tasks}"), tasks_max)
    drawn = draw(same, **(drawing or {}))
    rng = random.Random(f"{draw.__name__} {seed} {tasks}")
    every = Checkpoint("memory", every_s=rng.choice([0.0001, 0.0005, 0.002]))
    workers = rng.randint(1, 3)
    query = InProcess(
        drawn.flow, workers=workers, settings=SETTINGS, seed=seed, store=MemoryStore(), checkpoint=every,
        policy=policy, **more,
    )  # fmt: skip
    return drawn, query, rng, workers


def move_keys(query, rng):
    """Ask for some key groups of some operators to go to another task."""
    for stage in query.brain.program.plan.stages if query.brain.state == "running" else ():
        if stage.head.verb in {"count", "reduce", "keyed_process"} and stage.tasks > 1:
            groups = rng.sample(range(SETTINGS.key_groups), 9)
            held = query.brain.operations.key_tasks(stage.id)
            moves = {group: 1 for group in groups if held[group] == 0}
            query.brain.operations.move_keys(stage.id, moves, "asked for")


def stopped(query, rng, workers, address):
    """Stop a run with a savepoint somewhere in its midst; tells whether one was made before it had ended."""
    if rng.random() < 0.4:
        move_keys(query, rng)
    for _ in range(rng.choice([0, 0, 1, 2])):
        query.turns(rng.randint(1, 40))
        if query.brain.state != "ended":
            query.kill(rng.randrange(workers))
    query.turns(rng.randint(1, 80))
    if query.brain.state == "ended":
        return False
    request = query.ask_savepoint(MemoryStore.shared(address), drained=True)
    if rng.random() < 0.3:
        move_keys(query, rng)
    kills = rng.choice([0, 0, 1, 2])
    for _ in range(WAITS_MAX):
        if request.over:
            break
        query.turns(rng.randint(1, 40))
        if kills and query.brain.state != "ended":
            kills -= 1
            query.kill(rng.randrange(workers))
    assert request.over
    assert request.error is None
    assert request.written.drained
    query.finish()
    return True


def run(draw, seed, tasks_max, policy=None, *, waits=False):
    """Stop and go on; with ``waits`` the source does not end before the stop."""
    address = f"memory:{draw.__name__}-{seed}-{tasks_max}-{policy}"
    drawing = {"ends": False} if waits else None
    drawn, query, rng, workers = begin(draw, seed, "before", policy=policy, drawing=drawing)
    with query:
        if not stopped(query, rng, workers, address):
            return drawn.faults(drawn.out.values)
    values = list(drawn.out.values)
    try:
        drawn, query, rng, workers = begin(
            draw, seed, "after", tasks_max=tasks_max, policy=policy, restore=tr.Savepoint(address), clock=query.clock
        )
    except NotDividedError:  # some tasks had come to their end
        drawn, query, rng, workers = begin(
            draw, seed, "before", policy=policy, restore=tr.Savepoint(address), clock=query.clock
        )
    with query:
        lose_workers(query, rng, workers)
        query.finish()
    return drawn.faults(values + list(drawn.out.values))


@pytest.mark.parametrize(
    "draw", [each for each in flows.ALL if each is not flows.awaited], ids=lambda draw: draw.__name__
)
@pytest.mark.parametrize("tasks_max", [1, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_stopped_query_goes_on_with_other_task_counts(draw, tasks_max, seed):
    assert run(draw, seed, tasks_max) == ""


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_what_came_of_no_tuple_is_waited_for(seed):
    assert run(flows.drips, seed, 4, waits=True) == ""


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8))
def test_calls_that_are_out_come_back_before_the_cut(seed):
    assert run(flows.awaited, seed, 3) == ""


@pytest.mark.parametrize("seed", range(4))
def test_two_tasks_of_a_key_go_on_as_others(seed):
    assert run(flows.word_totals, seed, 4, Policy(routing="partial_key")) == ""


@pytest.mark.parametrize("draw", [flows.word_count, flows.two_levels, flows.histories, flows.ticks])
@pytest.mark.parametrize("seed", range(2))
def test_a_running_query_is_saved_and_another_goes_on_from_there(draw, seed):
    address = f"memory:running-{draw.__name__}-{seed}"
    _, query, rng, workers = begin(draw, seed, "same")
    with query:
        query.turns(rng.randint(1, 100))
        if query.brain.state == "ended":
            return
        request = query.ask_savepoint(MemoryStore.shared(address), drained=False)
        for _ in range(WAITS_MAX):
            query.turns(rng.randint(1, 20))
            if request.over:
                break
            if rng.random() < 0.1 and query.brain.state != "ended":
                query.kill(rng.randrange(workers))
        assert request.error is None
        query.turns(20)
        numbers = request.manifest.numbers
        (given,) = [
            [row for row in rows if row[1] < numbers.get(f"{name}/{row[0]}", 0)]
            for name, rows in query._collected.items()
        ]
    drawn, query, _, _ = begin(draw, seed, "same", restore=tr.Savepoint(address))
    with query:
        query.finish()
        (came,) = query._collected.values()
    again = {row[:2] for row in came}  # what was on its way to the driver comes by its number once more
    assert drawn.faults([value for *at, value in given if tuple(at) not in again] + [row[2] for row in came]) == ""
