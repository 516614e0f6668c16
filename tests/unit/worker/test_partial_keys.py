"""``Policy(routing="partial_key")`` in whole queries: a key's work is halved, and no word is counted twice or lost."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter

import pytest

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.testing import InProcess, TestSink, TestSource, run

COUNT = 1500
SENTENCES = ["to be or not", "to be", "that is the question", "whether it is nobler in the mind to suffer", "be"]
WANTED = Counter(word for at in range(COUNT) for word in SENTENCES[at % len(SENTENCES)].split())
KEYED = Policy(routing="partial_key")


async def split(sentence):
    """Take a millisecond, and now and then a long while; another time the same sentence is quick."""
    now_s = asyncio.get_running_loop().time()
    await asyncio.sleep(0.06 if zlib.crc32(f"{sentence}{now_s:.4f}".encode()) % 300 == 0 else 0.001)
    return sentence.split()


def counting():
    flow = tr.Topology("partial")
    source = flow.source(tr.sources.rate(600, values=SENTENCES, count=COUNT, partitions=2), tasks=1)
    words = source.shuffle().flat_map(split, tasks=3, concurrency=1)
    words.key_by(lambda word: word).count(tasks=3, name="count").sink(TestSink(), name="out", tasks=4)
    return flow


@pytest.mark.parametrize("seed", range(2))
def test_counts_are_exact_while_late_roots_are_sent_again(seed):
    policy = Policy(routing="partial_key", replay="adaptive")
    settings = Settings(haste=10.0, replay_burst=16)
    with InProcess(counting(), workers=6, policy=policy, settings=settings, seed=seed) as query:
        result = query.finish()
        assert "count_parts" in query.explain()
    assert result.counters["replays"] > 0
    assert result.counters["duplicates"] > 0  # two incarnations of a word met at one task
    assert result.counters["completed"] == COUNT
    assert dict(result.values()) == WANTED


@pytest.mark.parametrize("replay", ["off", "fixed:30s"])
def test_a_key_that_is_all_there_is_goes_to_two_tasks_half_and_half(replay):
    flow = tr.Topology("hot")
    flow.source(TestSource(["hot"] * 400)).key_by(str).count(tasks=4, name="count").sink(TestSink(), name="out")
    with InProcess(flow, workers=4, policy=Policy(routing="partial_key", replay=replay)) as query:
        result = query.finish()
        loads = sorted(
            task.tuples_in
            for cell in query._cells.values()
            for task in cell.brain.tasks
            if task.stage.head.name == "count_parts"
        )
    assert loads[:2] == [0, 0]
    assert loads[2] > 150
    assert dict(result.values()) == {"hot": 400}


def test_a_reduce_is_split_too_and_other_keyed_work_is_left_alone():
    flow = tr.Topology("sums")
    numbers = flow.source(TestSource(range(300))).key_by(lambda value: value % 5)
    numbers.reduce(lambda one, other: one + other, tasks=3).sink(TestSink(), name="sums")
    numbers.process(lambda key, value, state: [(key, value)], tasks=3, name="own").sink(TestSink(), name="owned")
    result = run(flow, workers=3, policy=KEYED)
    assert dict(result.values("sums")) == {key: sum(range(key, 300, 5)) for key in range(5)}
    assert len(result.values("owned")) == 300
