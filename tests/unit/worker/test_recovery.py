"""Whole queries in process that lose workers at random: nothing is lost, and replays leave no trace in the results."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.unit.worker.rig import Kept

import tailrace as tr
from tailrace import protocol
from tailrace.config import Policy, Settings
from tailrace.testing import InProcess

COUNT = 200
SMALL = Settings(max_pending=48, inbox_tuples=256, outbox_tuples=32, batch_max=8)


def both(value):
    return [value, value + 1000]


WANTED = {*range(COUNT), *range(1000, 1000 + COUNT)}


def flow_of(name, *, sink_tasks):
    """Two sources, a shuffled map, a fan-out and a sink: no state, so any of its workers may be lost."""
    flow = tr.Topology("recovery")
    stream = flow.source(tr.sources.items(range(COUNT), partitions=3), tasks=2)
    mapped = stream.shuffle().map(lambda value: value, tasks=3)
    mapped.shuffle().flat_map(both, tasks=4).shuffle().sink(Kept(name), tasks=sink_tasks)
    return flow


@pytest.mark.parametrize("seed", range(12))
def test_whoever_is_lost_every_tuple_arrives(seed):
    rng = random.Random(seed)
    policy = Policy(chaining=rng.choice(["on", "off"]))
    with InProcess(flow_of("any", sink_tasks=2), workers=3, settings=SMALL, seed=seed, policy=policy) as query:
        for _ in range(4):
            for _ in range(rng.randint(0, 5)):
                query._turn()
            if query.brain.state != "ended":
                query.kill(rng.randrange(3))
        query.finish()
        # A loss must not be left to the time-out: whoever comes back is sent to at once.
        assert query.clock.now_ns() < 20_000_000_000
    assert set(Kept.written["any"]) == WANTED


@pytest.mark.parametrize("seed", range(8))
def test_losing_workers_without_state_or_sink_changes_no_result(seed):
    rng = random.Random(seed)
    flow = flow_of("exact", sink_tasks=1)
    with InProcess(flow, workers=3, settings=SMALL, seed=seed, policy=Policy(chaining="off")) as query:
        (sink_slot,) = query.brain.placement[-1]
        others = [slot for slot in range(3) if slot != sink_slot]
        for _ in range(4):
            for _ in range(rng.randint(1, 4)):
                query._turn()
            if query.brain.state != "ended":
                query.kill(rng.choice(others))
        query.finish()
    assert Counter(Kept.written["exact"]) == Counter(WANTED)


@pytest.mark.parametrize("seed", range(8))
def test_replays_at_any_time_change_no_count(seed):
    rng = random.Random(seed)
    flow = tr.Topology("counts")
    words = flow.source(tr.sources.items(range(COUNT), partitions=2), tasks=2).shuffle().map(str, tasks=3)
    counts = words.key_by(lambda word: word[-1]).count(tasks=2)
    counts.shuffle().sink(Kept("counts"), tasks=3)
    with InProcess(flow, workers=3, settings=SMALL, seed=seed) as query:
        for _ in range(8):
            for _ in range(rng.randint(1, 3)):
                query._turn()
            for cell in query._cells.values():
                cell.orders.append(protocol.Resume(9))
        result = query.finish()
    assert result.counters["replays"] > 0
    assert Counter(Kept.written["counts"]) == Counter(
        (str(digit), n) for digit in range(10) for n in range(1, COUNT // 10 + 1)
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_worker_that_was_given_up_does_no_harm(seed):
    """It goes on working while another has its slot; none of its frames may be accepted."""
    rng = random.Random(seed)
    flow = flow_of("zombie", sink_tasks=1)
    with InProcess(flow, workers=3, settings=SMALL, seed=seed, policy=Policy(chaining="off")) as query:
        (sink_slot,) = query.brain.placement[-1]
        for _ in range(rng.randint(2, 5)):
            query._turn()
        query.cut_off(next(slot for slot in range(3) if slot != sink_slot))
        result = query.finish()
    assert result.counters["restarts"] == 1
    assert Counter(Kept.written["zombie"]) == Counter(WANTED)
