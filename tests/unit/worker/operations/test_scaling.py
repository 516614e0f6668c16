"""Workers that join and leave a query in process: they get their share, and nothing is lost on the way."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from tests.unit.worker.operations.test_moving import COUNT, SMALL, check, flow_of
from tests.unit.worker.rig import Kept

from tailrace.config import Policy
from tailrace.coordinator.migration.replanning import moves_to
from tailrace.testing import InProcess, TestSource


def carry_out(query, wanted):
    plans = query.brain.operations.move_tasks(wanted, "a test asks")
    for _ in range(2000):
        if all(plan.over for plan in plans):
            break
        query.turns(1)
    assert {plan.state for plan in plans} <= {"done"}


def join(query, workers):
    for slot in query.brain.membership.expect(workers):
        query._register(slot)
    query.settle()
    assert all(member.open for member in query.brain.members.values())
    carry_out(query, moves_to(query._program, query.brain, "spread", sorted(query.brain.members)))


def leave(query, slots):
    stay = [slot for slot in query.brain.members if slot not in slots]
    carry_out(query, moves_to(query._program, query.brain, "spread", stay))
    query.brain.membership.dismiss(slots)
    assert not {slot for row in query.brain.placement for slot in row} & set(slots)


@pytest.mark.parametrize("seed", range(10))
def test_two_workers_become_four_and_two_again(seed):
    rng = random.Random(seed)
    source = TestSource(open_ended=True)
    policy = Policy(chaining="off", replay=rng.choice(["off", "fixed:30s"]))
    with InProcess(flow_of("scaled", source), workers=2, settings=SMALL, seed=seed, policy=policy) as query:
        source.feed(range(COUNT // 4))
        query.turns(rng.randint(0, 10))
        join(query, 2)
        assert {slot for row in query.brain.placement for slot in row} == {0, 1, 2, 3}
        source.feed(range(COUNT // 4, COUNT // 2))
        query.turns(rng.randint(0, 10))
        leave(query, [2, 3])
        source.feed(range(COUNT // 2, COUNT))
        query.turns(rng.randint(0, 10))
        join(query, 1)
        assert sorted(query.brain.members) == [0, 1, 4]
        source.end()
        result = query.finish()
    check("scaled")
    assert result.counters["restarts"] == 0
    assert result.counters["replays"] == 0


def test_a_worker_that_joined_may_be_lost_like_any_other():
    source = TestSource(open_ended=True)
    settings = replace(SMALL, lost_state="accept")  # tuples are looked at here, not what a key's state says of them
    with InProcess(flow_of("joined", source), workers=2, settings=settings, seed=3) as query:
        join(query, 1)
        source.feed(range(COUNT))
        query.turns(5)
        query.kill(2)
        source.end()
        result = query.finish()
    assert result.counters["restarts"] == 1
    assert set(Counter(row[1] for row in Kept.written["joined"])) == set(range(COUNT))
