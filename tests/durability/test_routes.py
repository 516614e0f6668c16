"""Roots that are sent again go to the tasks that know them, by whatever rule and whoever drives the query then."""

from __future__ import annotations

import random

import pytest

import tailrace as tr
from tailrace.checkpoint.errors import TopologyChangedError
from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.config import Policy
from tailrace.testing.inprocess import InProcess

from . import flows
from .test_recovery import SETTINGS


def near_sums(rng: random.Random, count: int = 300) -> flows.Drawn:
    """Un-keyed state behind a stream by root, whose shares hang on who is near whom."""
    flow, out = tr.Topology("near"), tr.sinks.collect()
    numbers = [rng.randint(1, 9) for _ in range(count)]
    source = flow.source(tr.sources.items(numbers, partitions=2), tasks=2)
    source.shuffle().process(flows.Sums(), tasks=4, name="sums").sink(out, tasks=2)
    return flows.Drawn(flow, out, lambda values: "" if sum(values) == sum(numbers) else f"{sum(values)}")


def driver(store: MemoryStore, drawn: flows.Drawn, seed: int, **more) -> InProcess:
    every = Checkpoint("memory", every_s=0.0005)
    return InProcess(drawn.flow, settings=SETTINGS, seed=seed, store=store, checkpoint=every, **more)


@pytest.mark.parametrize("locality", ["node", "worker"])
@pytest.mark.parametrize("seed", range(3))
def test_streams_keep_to_the_places_by_which_they_began(seed, locality):
    rng, store, policy = random.Random(seed), MemoryStore(), Policy(locality=locality)
    for workers in rng.sample(range(1, 6), 4):
        drawn = near_sums(random.Random(seed))
        with driver(store, drawn, seed, workers=workers, policy=policy) as query:
            query.turns(rng.randint(10, 40))
    drawn = near_sums(random.Random(seed))
    with driver(store, drawn, seed, workers=2, policy=policy) as query:
        query.finish()
    assert drawn.faults(drawn.out.values) == ""


@pytest.mark.parametrize("draw", [flows.word_totals, flows.keyed_ticks])
@pytest.mark.parametrize("seed", range(4))
def test_keys_that_move_after_others_had_read_further(seed, draw):
    """What the cut has of roots that are yet to be read again went the old way; a new driver counts from the start."""
    rng, store = random.Random(seed), MemoryStore()
    for left in (2, 1, 0):
        drawn = draw(random.Random(f"{draw.__name__} {seed + 4}"), 400)
        with driver(store, drawn, rng.randrange(99), workers=2) as query:
            query.turns(rng.randint(1, 12))
            for _ in range(left):
                query.kill(0)
                until_moved(query, rng)
                query.turns(rng.randint(1, 30))
            if not left:
                until_moved(query, rng)
                query.finish()
    assert drawn.faults(drawn.out.values) == ""


def until_moved(query: InProcess, rng: random.Random) -> None:
    """Move keys and let that be durable, unless the query ends before."""
    brain = query.brain
    while brain.state in {"deploying", "recovering"}:
        query.turns(1)
    for stage in brain.program.plan.stages if brain.state == "running" else ():
        if stage.head.name in {"counts", "totals"} and stage.tasks > 1:
            held = brain.operations.key_tasks(stage.id)
            old, new = rng.sample(range(stage.tasks), 2)
            groups = [group for group, task in enumerate(held) if task == old]
            brain.operations.move_keys(stage.id, dict.fromkeys(rng.sample(groups, len(groups) // 2), new), "a test")
    while brain.state == "running" and not brain.operations.idle:
        query.turns(1)
    epoch = brain.checkpoints.epoch
    while brain.state == "running" and (brain.checkpoints.durable is None or brain.checkpoints.durable.epoch <= epoch):
        query.turns(1)


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (Policy.auto(), "bundles of shuffled streams"),
        (Policy(routing="latency"), "bundles of shuffled streams"),
        (Policy(locality="node"), "locality"),
    ],
)
def test_a_policy_under_which_roots_would_go_other_ways_is_refused(after, told):
    store = MemoryStore()
    with driver(store, near_sums(random.Random(0)), 0, policy=Policy()) as query:
        while query.brain.checkpoints.durable is None:
            query.turns(1)
    with pytest.raises(TopologyChangedError, match=told):
        driver(store, near_sums(random.Random(0)), 0, policy=after)
    with driver(store, near_sums(random.Random(0)), 0, policy=Policy(replay="adaptive")) as query:
        query.finish()


def test_what_was_switched_holds_after_a_recovery():
    drawn = flows.word_totals(random.Random(3), 2000)
    with driver(MemoryStore(), drawn, 3, workers=2, policy=Policy.auto()) as query:
        query.brain.switch({"routing": "shortest_delay"})
        while not query.brain.operations.idle:
            query.turns(1)
        query.kill(1)
        while query.brain.state != "running":
            query.turns(1)
        query.turns(5)
        assert {cell.brain.deployment.policies.policy.routing for cell in query._cells.values()} == {"shortest_delay"}
        query.finish()
    assert drawn.faults(drawn.out.values) == ""
