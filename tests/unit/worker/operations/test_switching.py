"""Policies that change while a query runs: whatever is switched, and whenever, nothing is lost or counted twice."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import Counter

import pytest
from tests.unit.worker.mesh import Mesh
from tests.unit.worker.rig import Kept

import tailrace as tr
from tailrace import protocol
from tailrace.config import Policy, Settings
from tailrace.routing.detour import Detour
from tailrace.routing.shortest_delay import ShortestDelay
from tailrace.routing.weighted import Weighted
from tailrace.testing import InProcess, TestSink

#: A timeout is learned from the first 1,000 roots.
COUNT = 2000
SENTENCES = ["to be or not", "to be", "that is the question", "whether it is nobler in the mind to suffer", "be"]
WANTED = Counter(word for at in range(COUNT) for word in SENTENCES[at % len(SENTENCES)].split())
AUTO = Policy.auto(chaining="off")


async def split(sentence):
    """Take a millisecond, now and then a long while."""
    now_s = asyncio.get_running_loop().time()
    await asyncio.sleep(0.06 if zlib.crc32(f"{sentence}{now_s:.4f}".encode()) % 200 == 0 else 0.001)
    return sentence.split()


def counting(name):
    """Bundles of several words go over two free edges before they are counted."""
    flow = tr.Topology("switching")
    source = flow.source(tr.sources.rate(600, values=SENTENCES, count=COUNT, partitions=2), tasks=1)
    words = source.shuffle().flat_map(split, tasks=4, concurrency=1, name="split").shuffle().map(str, tasks=4)
    words.key_by(lambda word: word).count(tasks=2).shuffle().sink(Kept(name), tasks=3)
    return flow


def anything(rng, epoch):
    return protocol.Switch(
        epoch,
        rng.choice(["even", "shortest_delay"]),
        rng.choice(["per_task", "shared"]),
        rng.choice(["adaptive", "fixed:30s"]),
    )


#: With a worker for every task, those that split and map can be lost without losing state.
@pytest.mark.parametrize(("seed", "workers", "kills"), [(0, 3, False), (1, 14, True)])
def test_counts_are_exact_while_everything_is_switched_back_and_forth(seed, workers, kills):
    name = f"switched-{seed}"
    Kept.written.pop(name, None)
    rng = random.Random(seed)
    settings = Settings(haste=10.0, replay_burst=16)
    with InProcess(counting(name), workers=workers, policy=AUTO, settings=settings, seed=seed) as query:
        query.advance(1.8)
        for epoch in range(1, 30):
            query.advance(rng.uniform(0.01, 0.08))
            query.brain.tell_all(anything(rng, 100 + epoch))
            query.turns(rng.randint(0, 3))
            if kills and epoch % 8 == 0:
                query.kill(rng.choice(query.brain.placement[1] + query.brain.placement[2]))
        result = query.finish()
    assert result.counters["completed"] == COUNT
    assert result.counters["duplicates"] > 0
    assert sorted(Kept.written[name]) == sorted((word, at + 1) for word in WANTED for at in range(WANTED[word]))


def flow_of(count=40):
    flow = tr.Topology("rules")
    numbers = flow.source(tr.sources.items(range(count), partitions=1), tasks=1).shuffle()
    numbers.map(lambda value: value, tasks=4, name="work").shuffle().sink(TestSink(), name="out", tasks=1)
    return flow


def mesh_of():
    return Mesh(flow_of(), [[0], [1] * 4, [0]], policy=AUTO)


def test_a_new_rule_takes_over_what_is_under_way():
    mesh = mesh_of()
    brain, task = mesh.brains[0], mesh.task("items")
    mesh.work(0)
    mesh.flush(0)
    (outlet,) = task.outlets.values()
    assert isinstance(outlet._router, Weighted)
    assert outlet.pending == [10, 10, 10, 10]
    brain.on_control(protocol.Switch(2, "shortest_delay", "per_task", "fixed:30s"))
    assert isinstance(outlet._router, ShortestDelay)
    assert outlet._router.pending == [10, 10, 10, 10]
    brain.on_control(protocol.Switch(1, "even", "per_task", "adaptive"))
    assert isinstance(outlet._router, ShortestDelay)  # an older word does not count
    for each in mesh.brains.values():
        each.on_control(protocol.Switch(3, "even", "per_task", "adaptive"))
    assert isinstance(outlet._router, Detour)
    mesh.settle()
    assert outlet.pending == outlet._router.pending == [0, 0, 0, 0]
    brain.on_control(protocol.Switch(4, "shortest_delay", "per_task", "adaptive"))
    assert isinstance(outlet._router.inner, ShortestDelay)  # replays go around here too


def test_an_inbox_is_pooled_and_parted_with_what_waits_in_it():
    mesh = mesh_of()
    mesh.work(0)
    mesh.flush(0)
    mesh.deliver(1)
    brain = mesh.brains[1]
    tasks = [task for task in brain.tasks if task.stage.head.name == "work"]
    before = [[batch.values for _, batch, _ in task.inbox.waiting] for task in tasks]
    brain.on_control(protocol.Switch(1, "even", "shared", "fixed:30s"))
    assert len({id(task.inbox) for task in tasks}) == 1
    assert tasks[0].inbox.tuples == 40
    brain.on_control(protocol.Switch(2, "even", "per_task", "fixed:30s"))
    assert [[batch.values for _, batch, _ in task.inbox.waiting] for task in tasks] == before
    assert [task.inbox.tuples for task in tasks] == [10] * 4
    mesh.settle()
    assert mesh.closed


def test_a_worker_that_comes_late_gets_the_present_choice():
    settings = Settings(progress_s=0.2, lost_state="accept")  # counts are not looked at here
    with InProcess(counting("late"), workers=3, policy=AUTO, settings=settings) as query:
        query.advance(1.5)
        assert query.brain.autopilot.present.replay == "adaptive"  # low load: the timeout's conditions hold
        slot = query.brain.placement[0][0]
        query.kill(slot)
        query.advance(0.5)
        (brain,) = [cell.brain for cell in query._cells.values() if cell.brain.slot == slot]
        assert brain.deployment.policies.policy.replay == "adaptive"
        assert "auto, now adaptive" in query.explain()
        row = query.brain.book.recent[-1]["auto"]
        assert row["technique"] == "balancing+timeout"
        assert row["switches"] == 1
        assert "room for a few replays" in row["why"]
        assert query.stop().counters["pending"] == 0
