"""States of running queries are read: at any moment of runs that lose workers and move tasks and keys, and by users."""

from __future__ import annotations

import os
import random
import signal
import threading

import pytest
from tests.queries import PATIENT, completed, ending, pids, until

import tailrace as tr
from tailrace import testing
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.coordinator.errors import StateReadError
from tailrace.coordinator.query import Query
from tailrace.coordinator.state_reads import StateRead
from tailrace.errors import ConfigError
from tailrace.routing.fields import group_of
from tailrace.testing.inprocess import InProcess
from tailrace.transport import codec

KEYS = 12
STAGE = 1
SETTINGS = tr.Settings(progress_s=0.0002, max_pending=24, batch_max=4, slice_us=1)


def ages(count):
    """Each key's state grows by one with each value, so that a read that went to the wrong place is found by it."""
    flow, out = tr.Topology("ages"), tr.sinks.collect()
    values = flow.source(tr.sources.items([number % KEYS for number in range(count)], partitions=3), tasks=2)
    values.key_by(lambda value: value).count(tasks=3, name="counts").sink(out, tasks=2)
    return flow, out


@pytest.mark.parametrize("durable", [False, True], ids=["plain", "checkpoints"])
@pytest.mark.parametrize("seed", range(4))
def test_a_read_tells_the_state_wherever_it_has_gone(seed, durable):
    rng, count = random.Random(seed), 396
    store = {"store": MemoryStore(), "checkpoint": tr.Checkpoint("memory", every_s=0.0005)} if durable else {}
    largest = 0
    flow, out = ages(count)
    with InProcess(flow, workers=3, settings=SETTINGS, seed=seed, **store) as query:
        query.turns(20)
        restarts, least = 0, {}
        while query.brain.state != "ended":
            query.turns(rng.randint(1, 9))
            if query.brain.state == "running":
                disturb(query, rng, durable)
            key = rng.randrange(KEYS)
            read = StateRead(STAGE, "counts", group_of(key, 1024), key=codec.dumps(key))
            query.brain.state_reads.begin(read)
            while read.answer is None and query.brain.state != "ended":
                query.turns(1)
            if read.answer is None:
                break
            found = dict(codec.loads(read.answer.values))
            assert set(found) <= {key}
            if query.brain.restarts > restarts:  # all went back to an epoch; else no state ever goes back
                restarts, least = query.brain.restarts, {}
            assert least.get(key, 0) <= found.get(key, 0) <= count // KEYS
            least[key] = found.get(key, 0)
            largest = max(largest, least[key])
        query.finish()
    assert largest > 0
    assert sorted(out.values) == [(key, number + 1) for key in range(KEYS) for number in range(count // KEYS)]


def disturb(query, rng, durable):
    """Move some keys or a task, or lose a worker, beside the reads."""
    operations, chance = query.brain.operations, rng.random()
    if not operations.idle or query.brain.draining:
        return
    if chance < 0.3:
        operations.move_keys(STAGE, dict.fromkeys(rng.sample(range(1024), 200), rng.randrange(3)), "a test")
    elif chance < 0.5:
        operations.move_tasks([(STAGE, rng.randrange(3), rng.randrange(3))], "a test")
    elif chance < 0.6 and durable:
        query.kill(rng.randrange(3))


def counting(tmp_path=None, **how):
    flow = tr.Topology("counting")
    numbers = flow.source(tr.sources.rate(2000, count=how.pop("count", None)), name="numbers")
    numbers.key_by(lambda value: value % 10).count(tasks=2, name="counts").sink(tr.sinks.discard(), name="out")
    every = None if tmp_path is None else tr.Checkpoint(tmp_path / "checkpoint", every_s=0.1)
    settings = tr.Settings(progress_s=0.1, **PATIENT)
    return Query(flow, testing.ProcessHost(2), tr.Policy(), settings, every).start()


def test_a_user_reads_states_by_key():
    with ending(counting()) as query:
        until(lambda: completed(query) > 500, "progress", query)
        counts = query.state("counts")
        before = counts.get(3)
        assert before >= 50
        until(lambda: counts.get(3) > before, "a larger count", query)
        assert counts.get("none") is None
        found = dict(counts.items())
        assert sorted(found) == list(range(10))
        assert len(counts.items(limit=3)) == 3
        for operator, said in (("count", "Did you mean 'counts'"), ("numbers", "those that do: 'counts'")):
            with pytest.raises(ConfigError, match=said):
                query.state(operator)
        with pytest.raises(ConfigError, match="limit"):
            counts.items(limit=0)
        query.stop()
        with pytest.raises(StateReadError, match="the query has ended"):
            counts.get(3)


@pytest.mark.chaos
def test_a_read_waits_for_the_successor_of_a_worker_that_is_lost(tmp_path):
    with ending(counting(tmp_path)) as query:
        until(lambda: query._brain.checkpoints.durable is not None and completed(query) > 500, "an epoch", query)
        slot = query.workers_of("counts")[0]
        keys = [key for key in range(10) if query.key_groups_of("counts")[group_of(key, 1024)] == 0]
        os.kill(pids(query)[slot], signal.SIGSTOP)
        found = []
        asking = threading.Thread(target=lambda: found.append(query.state("counts").get(keys[0], timeout_s=120)))
        asking.start()
        os.kill(pids(query)[slot], signal.SIGKILL)
        asking.join()
        assert found[0] > 0


class Slow(tr.KeyedOperator):
    """Changes its state in two steps, slowly enough to be given a thread of its own."""

    def process(self, key, value, state):
        held = state.get() or {"begun": 0, "done": 0}
        held["begun"] += 1
        state.set(held)
        threading.Event().wait(0.05)
        held["done"] += 1


def test_half_a_change_is_never_seen():
    flow = tr.Topology("halves")
    numbers = flow.source(tr.sources.rate(15)).key_by(lambda value: value % 2)
    numbers.process(Slow(), tasks=1, name="slow").sink(tr.sinks.discard())
    settings = tr.Settings(progress_s=0.1, **PATIENT)
    with ending(Query(flow, testing.ProcessHost(1), tr.Policy(), settings).start()) as query:
        until(lambda: query.state("slow").get(0) is not None, "a state", query)
        for _ in range(10):
            found = query.state("slow").get(0)
            assert found["begun"] == found["done"]
