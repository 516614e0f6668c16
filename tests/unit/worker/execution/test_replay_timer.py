"""Whole queries in process in which tasks stall and workers are lost: late roots go again, and no word counts twice."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import Counter

import pytest
from tests.unit.worker.rig import Kept

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.testing import InProcess

COUNT = 2400
SENTENCES = ["to be or not", "to be", "that is the question", "whether it is nobler in the mind to suffer", "be"]
WANTED = Counter(word for at in range(COUNT) for word in SENTENCES[at % len(SENTENCES)].split())
#: Splitters sit on workers of their own, so that losing one loses no state.
WORKERS = 10
SPLITTERS = range(1, 4)


async def split(sentence):
    """Take a millisecond, and now and then a long while, holding the task up; another time it is quick again."""
    now_s = asyncio.get_running_loop().time()
    stalls = zlib.crc32(f"{sentence}{now_s:.4f}".encode()) % 600 == 0
    await asyncio.sleep(0.06 if stalls else 0.001)
    return sentence.split()


def counting(name):
    flow = tr.Topology("late")
    source = flow.source(tr.sources.rate(600, values=SENTENCES, count=COUNT, partitions=2), tasks=1)
    words = source.shuffle().flat_map(split, tasks=3, concurrency=1)
    words.key_by(lambda word: word).count(tasks=2).shuffle().sink(Kept(name), tasks=4)
    return flow


def run(name, seed, policy, *, kills=0):
    Kept.written.pop(name, None)
    rng = random.Random(seed)
    settings = Settings(haste=10.0, replay_burst=16)
    with InProcess(counting(name), workers=WORKERS, policy=policy, settings=settings, seed=seed) as query:
        for _ in range(kills):
            query.advance(rng.uniform(0.6, 1.0))
            query.kill(rng.choice(SPLITTERS))
        return query.finish(), query


@pytest.fixture(scope="module")
def adaptive():
    """One run that several tests look at."""
    return run("late", 0, Policy(replay="adaptive"))


def test_late_roots_are_sent_again_within_the_budget_and_no_word_is_counted_twice(adaptive):
    result, _ = adaptive
    assert 0 < result.counters["replays"] <= 0.03 * COUNT
    assert result.counters["duplicates"] > 0
    assert result.counters["completed"] == COUNT
    highest = Counter()
    for word, count in Kept.written["late"]:
        highest[word] = max(highest[word], count)
    assert highest == WANTED
    assert len(Kept.written["late"]) == WANTED.total()


@pytest.mark.parametrize("seed", range(2))
def test_losing_splitters_in_between_leaves_the_counts_exact(seed):
    result, query = run("lost", seed, Policy(replay="adaptive"), kills=3)
    assert set(query.brain.placement[1]) == set(SPLITTERS)
    assert result.counters["restarts"] == 3
    assert Counter(word for word, _ in Kept.written["lost"]) == WANTED
    assert sorted(Kept.written["lost"]) == sorted((word, at + 1) for word in WANTED for at in range(WANTED[word]))


def test_a_source_behind_a_full_outbox_learns_on_and_keeps_no_pile_of_measurements():
    settings = Settings(outbox_tuples=1, haste=10.0)
    with InProcess(counting("full"), workers=WORKERS, policy=Policy(replay="adaptive"), settings=settings) as query:
        query.advance(0.5)
        (source,) = (task.source for cell in query._cells.values() for task in cell.brain.tasks if task.source)
        assert source.ledger.completed > 100
        assert len(source.ledger.spent) < 100


def test_a_replay_goes_around_the_task_that_stalls(adaptive):
    _, fixed = run("tail", 0, Policy(replay="fixed:30s"))
    p99, p99_fixed = (query.brain.book.latency_total.percentile(0.99) for query in (adaptive[1], fixed))
    assert p99 < 0.8 * p99_fixed
