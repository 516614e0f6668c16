"""Whole queries in process with one slow worker: senders learn of it, and it gets less until it recovers."""

from __future__ import annotations

import pytest

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.testing import FakeClock, InProcess, TestSink, chaos

RATE = 1000
#: Source on 0; the map's tasks on 1 to 4; the sink on 0 again.
WORKERS, SLOW = 5, 2


def flow_of(knobs):
    async def serve(value):
        await knobs.wait_async(0.002)
        return value

    flow = tr.Topology("balanced")
    source = flow.source(tr.sources.rate(RATE), tasks=1).shuffle()
    source.map(serve, tasks=4, concurrency=1).shuffle().sink(TestSink(), name="out")
    return flow


def shares(query, since):
    """Which part of the tuples each task of the map got since a progress report."""
    sent = [
        sum(row["tuples"] for row in progress["edges"] if row["to"] == f"serve[{task}]")
        for progress in (since, query.brain.book.recent[-1])
        for task in range(4)
    ]
    grown = [after - before for before, after in zip(sent[:4], sent[4:], strict=True)]
    return [each / sum(grown) for each in grown]


def start(knobs, routing, replay="fixed:30s", **settings):
    return InProcess(
        flow_of(knobs), workers=WORKERS, policy=Policy(routing=routing, replay=replay), settings=Settings(**settings)
    )


@pytest.mark.parametrize(("routing", "replay"), [("shortest_delay", "fixed:30s"), ("load_aware", "off")])
def test_a_slow_worker_gets_less_and_its_share_back_when_it_recovers(routing, replay):
    clock = FakeClock()
    with chaos.Knobs(clock) as knobs:
        knobs.slow(SLOW, 2.0)
        with start(knobs, routing, replay, haste=10.0, progress_s=0.1) as query:
            query.advance(0.6)
            begun = query.brain.book.recent[-1]
            query.advance(0.5)
            slow = shares(query, begun)
            assert query.brain.placement[1][1] == SLOW
            assert slow[1] < 0.85 * 0.25
            assert min(slow[0], slow[2], slow[3]) > 0.25
            weights = query.brain.book.recent[-1]["balancing"]
            if routing == "shortest_delay":
                assert weights[0]["weights"][1] == min(weights[0]["weights"])
                assert "task 1 has the least" in weights[0]["why"]
                assert "task 1 has the least" in query.explain()
            knobs.slow(SLOW, 1.0)
            query.advance(1.2)
            begun = query.brain.book.recent[-1]
            query.advance(0.5)
            assert all(0.21 < share < 0.29 for share in shares(query, begun))
            result = query.stop()
            assert sorted(result.values()) == list(range(len(result.values())))


def test_latency_moves_a_step_per_period_away_from_the_slow_task_also_under_adaptive_replay():
    with chaos.Knobs() as knobs:
        knobs.slow(SLOW, 1.6)
        with start(knobs, "latency", "adaptive", haste=50.0, progress_s=0.1) as query:
            query.advance(1.0)
            (row,) = query.brain.book.recent[-1]["balancing"]
            assert row["weights"][1] == min(row["weights"]) <= 0.22
            assert abs(sum(row["weights"]) - 1.0) < 1e-3
            query.kill(0)
            query.advance(0.3)  # the source's new worker is told at once
            begun = query.brain.book.recent[-1]
            query.advance(0.5)
            assert shares(query, begun)[1] < 0.24


def test_auto_finds_the_slow_worker_by_itself():
    clock = FakeClock()
    with chaos.Knobs(clock) as knobs:
        knobs.slow(SLOW, 2.0)
        policy, settings = Policy.auto(), Settings(progress_s=0.1, haste=4.0)
        with InProcess(flow_of(knobs), workers=WORKERS, policy=policy, settings=settings, clock=clock) as query:
            query.advance(2.2)
            begun = query.brain.book.recent[-1]
            assert begun["auto"]["technique"] == "balancing"
            assert "2.0x" in begun["auto"]["why"]
            query.advance(0.4)
            assert shares(query, begun)[1] < 0.85 * 0.25
            assert query.brain.book.recent[-1]["auto"]["switches"] <= 2
            result = query.stop()
            assert sorted(result.values()) == list(range(len(result.values())))


def test_even_takes_no_notice():
    with chaos.Knobs() as knobs:
        knobs.slow(SLOW, 1.5)
        with start(knobs, "even", progress_s=0.1) as query:
            query.advance(0.3)
            begun = query.brain.book.recent[-1]
            query.advance(0.4)
            assert all(abs(share - 0.25) < 0.01 for share in shares(query, begun))
            assert query.brain.book.recent[-1]["balancing"] == []
