"""The in-process runner, and with it what the brains promise when workers are lost; a seed is an interleaving."""

from __future__ import annotations

import collections
import random

import pytest

import tailrace as tr
from tailrace import testing
from tailrace.program.errors import OperatorError
from tailrace.testing.errors import EndlessError, StalledError, UnknownSinkError

NS = 1_000_000_000
IDS = range(300)


def carries_sizes():
    """Like ``carries_ids``, with values between nothing and more than a window's bytes on the way."""
    sizes = [0, 40, 3000, 50_000, 300_000]
    flow = tr.Topology("sizes")
    numbers = flow.source(testing.TestSource(range(60), partitions=2), tasks=2)
    blown = numbers.shuffle().map(lambda v: (v, "x" * sizes[v * 7 % 5]), tasks=3)
    pairs = blown.shuffle().flat_map(lambda pair: [(pair[0], 0), (pair[0], len(pair[1]))], tasks=2)
    pairs.sink(testing.TestSink(), name="out", tasks=2)
    return flow, {(v, part) for v in range(60) for part in (0, sizes[v * 7 % 5])}


def carries_ids():
    """A stateless topology on four workers: sources, two stages apart by shuffles, sinks."""
    flow = tr.Topology("ids")
    numbers = flow.source(testing.TestSource(IDS, partitions=2), tasks=2)
    pairs = numbers.shuffle().map(lambda v: v, tasks=3).shuffle().flat_map(lambda v: [(v, 0), (v, 1)], tasks=2)
    pairs.sink(testing.TestSink(), name="out", tasks=2)
    return flow


def counts_words(values):
    """Source, map, count and sink on a worker each."""
    flow = tr.Topology("counts")
    words = flow.source(testing.TestSource(values)).shuffle().map(lambda v: v % 7, name="stateless")
    words.key_by(lambda v: v).count().shuffle().sink(testing.TestSink(), name="out")
    return flow


def test_the_same_seed_gives_the_same_run():
    runs = [testing.run(carries_ids(), workers=4, seed=seed).values() for seed in (5, 5, 6)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    assert sorted(runs[0]) == sorted(runs[2]) == [(v, part) for v in IDS for part in (0, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_windows_full_of_bytes_never_stand_still_whoever_is_lost(seed):
    """The smallest windows there are: large values fill them one by one, and workers die or are cut off meanwhile."""
    rng = random.Random(seed)
    flow, wanted = carries_sizes()
    policy = tr.Policy(chaining=rng.choice(["on", "off"]), inbox=rng.choice(["per_task", "shared"]))
    settings = tr.Settings(queue_bytes=1, batch_max=rng.choice([4, 512]))
    with testing.InProcess(flow, workers=4, seed=seed, settings=settings, policy=policy) as query:
        for _ in range(rng.randint(1, 4)):
            query.turns(rng.randint(0, 12))
            lose = query.kill if rng.random() < 0.5 else query.cut_off
            lose(rng.randrange(4))
        result = query.finish()
    assert set(result.values()) == wanted


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_with_workers(seed):
    rng = random.Random(seed)
    settings = tr.Settings(
        max_pending=rng.choice([16, 8192]), inbox_tuples=rng.choice([64, 8192]), batch_max=rng.choice([4, 512])
    )
    policy = tr.Policy(chaining=rng.choice(["on", "off"]))
    with testing.InProcess(carries_ids(), workers=4, seed=seed, settings=settings, policy=policy) as query:
        for _ in range(rng.randint(2, 5)):
            query.turns(rng.randint(0, 12))
            for slot in rng.sample(range(4), rng.randint(1, 2)):
                lose = query.kill if rng.random() < 0.7 else query.cut_off
                lose(slot)
        result = query.finish()
    assert result.counters["restarts"] > 0
    assert set(result.values()) == {(v, part) for v in IDS for part in (0, 1)}


@pytest.mark.parametrize("seed", range(20))
def test_state_is_exact_when_workers_without_state_are_lost(seed):
    rng = random.Random(seed)
    flow = counts_words(range(400))
    with testing.InProcess(flow, workers=4, seed=seed, settings=tr.Settings(max_pending=32, batch_max=8)) as query:
        stateless = [query.brain.placement[stage][0] for stage in (0, 1)]
        for _ in range(4):
            query.turns(rng.randint(0, 10))
            rng.choice([query.kill, query.cut_off])(rng.choice(stateless))
        result = query.finish()
    assert result.counters["restarts"] == 4
    wanted = [(key, n) for key in range(7) for n in range(1, len(range(key, 400, 7)) + 1)]
    assert sorted(result.values()) == wanted


def test_none_of_a_zombies_frames_is_accepted():
    """A worker that lost its slot works on what it has; others refuse all of it."""
    flow = counts_words(range(200))
    with testing.InProcess(flow, workers=4, seed=3, settings=tr.Settings(max_pending=16)) as query:
        query.turns(6)
        query.cut_off(query.brain.placement[1][0])
        result = query.finish()
    assert result.counters["refused_messages"] > 0
    assert collections.Counter(key for key, _ in result.values()) == collections.Counter(v % 7 for v in range(200))


def test_a_query_is_fed_and_watched_step_by_step():
    source, flow = testing.TestSource(open_ended=True), tr.Topology("steps")
    flow.source(source).map(lambda v: v * 10).sink(testing.TestSink(), name="out")
    with testing.InProcess(flow, workers=2) as query:
        query.settle()
        assert query.values() == []
        source.feed([1, 2])
        query.advance(1)
        assert query.values() == [10, 20]
        source.feed([3])
        source.end()
        assert query.finish().values("out") == [10, 20, 30]


def test_a_lost_source_goes_on_where_its_open_roots_begin():
    source, flow = testing.TestSource(range(100), open_ended=True), tr.Topology("reopened")
    flow.source(source).shuffle().map(lambda v: v).sink(testing.TestSink())
    with testing.InProcess(flow, workers=2) as query:
        query.advance(2.5)
        assert source.committed == {"0": 100}
        query.kill(query.brain.placement[0][0])
        source.end()
        result = query.finish()
    assert source.opened == [("0", 0), ("0", 100)]
    assert sorted(result.values()) == list(range(100))


def test_a_source_that_fails_ends_the_query_and_can_be_run_again():
    source, flow = testing.TestSource([1, 2]), tr.Topology("broken")
    flow.source(source, name="wobbly").sink(testing.TestSink())
    source.fail(OSError("the disk is gone"))
    with pytest.raises(OperatorError, match=r"wobbly.*the disk is gone"):
        testing.run(flow)
    source.fail(None)
    assert testing.run(flow).values() == [1, 2]
    assert source.opened == [("0", 0), ("0", 0)]


def test_time_is_the_clocks_and_passes_at_once():
    clock, flow = testing.FakeClock(5 * NS), tr.Topology("rate")
    flow.source(tr.sources.rate(2)).sink(tr.sinks.collect())
    result = testing.run(flow, clock=clock, for_s=600)
    assert len(result.values()) in {1200, 1201}
    assert clock.now_ns() >= 605 * NS
    assert result.progress[-1]["completed"] == result.counters["read"] == len(result.values())


def test_overdue_roots_are_sent_again_and_their_duplicates_dropped():
    class Slow(tr.Operator):
        def open(self, ctx):
            self.clock = ctx.clock

        def process(self, value):
            if value == 50:
                self.clock.advance(40 * NS)  # longer than the timeout: what waits behind is sent again
            return [value]

    flow = tr.Topology("late")
    flow.source(testing.TestSource(range(100))).process(Slow).shuffle().sink(testing.TestSink(), tasks=2)
    result = testing.run(flow, workers=3, settings=tr.Settings(batch_max=8))
    assert result.counters["replays"] > 0
    assert sorted(result.values()) == list(range(100))


def test_a_record_now_and_then_is_not_a_stall():
    flow = tr.Topology("patient")
    flow.source(tr.sources.rate(1 / 200, count=3)).sink(tr.sinks.collect())
    assert testing.run(flow).values() == [0, 1, 2]


def test_an_endless_source_needs_a_time():
    flow = tr.Topology("endless")
    flow.source(tr.sources.rate(10), name="for-ever").sink(tr.sinks.discard())
    with pytest.raises(EndlessError, match="for-ever"):
        testing.run(flow)


def test_a_query_that_never_ends_is_told_apart_from_a_slow_one():
    flow = tr.Topology("stuck")
    flow.source(testing.TestSource([1], open_ended=True)).sink(testing.TestSink())
    with testing.InProcess(flow) as query, pytest.raises(StalledError, match="nothing has moved"):
        query.finish()


def test_a_sink_that_is_not_there_is_named():
    flow = tr.Topology("sinks")
    numbers = flow.source(testing.TestSource([1]))
    numbers.sink(testing.TestSink(), name="left")
    numbers.sink(testing.TestSink(), name="right")
    result = testing.run(flow)
    assert result.collected == {"left": [1], "right": [1]}
    with pytest.raises(UnknownSinkError, match="'left'"):
        result.values("lefd")


@pytest.mark.parametrize("seed", range(10))
def test_a_source_that_is_lost_after_its_end_does_not_hold_the_query_up(seed):
    """Its successor reads again what the last report did not cover, and tasks that have closed must answer for it."""
    with testing.InProcess(carries_ids(), workers=4, seed=seed) as query:
        while not {(1, 0), (1, 1), (1, 2)} & query.brain._tasks_done:
            query.turns(1)
        query.kill(query.brain.placement[0][0])
        result = query.finish()
    assert set(result.values()) == {(v, part) for v in IDS for part in (0, 1)}
