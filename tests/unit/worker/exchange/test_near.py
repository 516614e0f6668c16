"""Locality in whole queries, in process: who gets what, and exact results while workers are lost."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.unit.worker.rig import Kept

import tailrace as tr
from tailrace.protocol import Peer
from tailrace.reports import LinkReport
from tailrace.testing import InProcess, TestSource
from tailrace.worker.exchange.traffic import OTHER_NODE, SAME_WORKER, LinkMeter

ITEMS = list(range(400))


def flow_of(kept, *, keyed=False):
    flow = tr.Topology("near")
    source = flow.source(tr.sources.items(ITEMS, partitions=4), tasks=4, name="source")
    doubled = source.shuffle().map(lambda v: v * 2, tasks=4, name="double")
    if keyed:
        doubled = doubled.key_by(lambda v: v % 7).process(lambda key, v, state: [v], tasks=4, name="keyed")
    doubled.shuffle().sink(kept, tasks=4, name="end")
    return flow


def traffic(progress):
    return {row["edge"]: row for row in progress["traffic"]}


@pytest.mark.parametrize("replay", ["off", "fixed:30s"])
def test_everything_stays_in_its_worker_where_every_worker_has_a_task(replay):
    policy = tr.Policy(locality="node", replay=replay)
    with InProcess(flow_of(tr.sinks.collect()), workers=4, policy=policy) as query:
        result = query.finish()
    assert sorted(result.values()) == [2 * v for v in ITEMS]
    rows = traffic(result.progress[-1])
    for edge in ("source -> double", "double -> end"):
        assert rows[edge]["tuples"] == {"inProcess": 400, "intraNode": 0, "interNode": 0}
        assert rows[edge]["predicted"]["tuples"] == rows[edge]["tuples"]


def test_plain_shuffle_crosses_as_predicted():
    with InProcess(flow_of(tr.sinks.collect()), workers=4, policy=tr.Policy(locality="off")) as query:
        rows = traffic(query.finish().progress[-1])
    row = rows["source -> double"]
    assert row["tuples"] == {"inProcess": 100, "intraNode": 0, "interNode": 300}
    assert row["predicted"]["tuples"]["interNode"] == 300
    assert row["bytes"]["interNode"] == row["predicted"]["bytes"]["interNode"] > 0
    # By root the split is as even as a hash is.
    assert 250 < rows["double -> end"]["tuples"]["interNode"] < 350


def test_behind_a_keyed_edge_sinks_go_by_root_over_all_tasks():
    policy = tr.Policy(locality="node")
    with InProcess(flow_of(tr.sinks.collect(), keyed=True), workers=4, policy=policy) as query:
        rows = traffic(query.finish().progress[-1])
    assert rows["source -> double"]["tuples"]["interNode"] == 0
    assert rows["keyed -> end"]["tuples"]["interNode"] > 200


@pytest.mark.parametrize("replay", ["fixed:5s", "adaptive"])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_or_doubled_when_workers_die(seed, replay):
    policy = tr.Policy(locality="node", replay=replay)
    # A collecting sink acknowledges what is safe at the driver, so that even its loss may double nothing.
    with InProcess(flow_of(tr.sinks.collect()), workers=4, policy=policy, seed=seed) as query:
        query.turns(6 + seed)
        query.kill(seed % 4)
        query.turns(10)
        query.kill((seed + 1) % 4)
        found = Counter(query.finish().values())
    assert set(found) == {2 * v for v in ITEMS}


def test_two_incarnations_meet_at_one_guard():
    """Replayed for lateness with nothing lost: every duplicate has to be dropped."""
    policy = tr.Policy(locality="node", replay="fixed:1s")
    flow = tr.Topology("late")
    source = flow.source(tr.sources.items(ITEMS, partitions=4), tasks=4, name="source")
    slow = source.shuffle().map(lambda v: v, tasks=4, name="pass")
    slow.shuffle().sink(tr.sinks.collect(), tasks=4, name="end")
    with InProcess(flow, workers=4, policy=policy) as query:
        brains = [cell.brain for cell in query._cells.values()]
        query.turns(3)
        for brain in brains:
            for task, source_side in brain.deployment.worker.sources:
                brain.deployment.completion.replay(task, source_side, source_side.ledger.everything(), lost=True)
        result = query.finish()
    assert sorted(result.values()) == ITEMS
    assert result.progress[-1]["duplicates"] > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("locality", ["off", "worker", "node"])
@pytest.mark.parametrize("grouping", ["shuffle", "local_or_shuffle"])
def test_bundles_of_several_are_cut_alike_whoever_sends_them(locality, grouping, seed):
    """A replay may reach another task of the first operator, whose way to the next one has other tasks in it."""
    name = f"several-{locality}-{grouping}-{seed}"
    flow = tr.Topology("several")
    source = flow.source(tr.sources.items(ITEMS, partitions=4), tasks=4, name="source")
    rows = source.shuffle().flat_map(lambda v: [(v, n) for n in range(3)], tasks=5, name="several")
    passed = getattr(rows, grouping)().map(lambda row: row, tasks=7, name="pass")
    last = passed.key_by(lambda row: row[0] % 5).reduce(lambda _, row: row, tasks=2, name="last")
    last.map(lambda pair: pair[1]).shuffle().sink(Kept(name), tasks=2, name="end")
    policy = tr.Policy(locality=locality, replay="fixed:30s", chaining="off")
    settings = tr.Settings(batch_max=4, max_pending=64)
    with InProcess(flow, workers=3, policy=policy, seed=seed, settings=settings) as query:
        for turns in (1, 3, 2, 5, 4):
            query.turns(turns)
            for cell in query._cells.values():
                for task, side in cell.brain.deployment.worker.sources:
                    cell.brain.deployment.completion.replay(task, side, side.ledger.everything(), lost=True)
        query.finish()
    assert Counter(Kept.written[name]) == Counter((v, n) for v in ITEMS for n in range(3))


@pytest.mark.parametrize("replay", ["off", "fixed:30s", "adaptive"])
def test_free_streams_follow_a_task_that_moves(replay):
    """Every worker has one of each; after two have changed places, everyone sends to the one that is beside it now."""
    source = TestSource(open_ended=True)
    flow = tr.Topology("followed")
    passed = flow.source(source, tasks=1, name="source").shuffle().map(lambda v: v, tasks=4, name="pass")
    passed.key_by(lambda v: v % 7).count(tasks=4, name="count").sink(Kept(f"followed-{replay}"), tasks=1)
    policy = tr.Policy(locality="worker", replay=replay, chaining="off")
    with InProcess(flow, workers=4, policy=policy, settings=tr.Settings(local_skew_max=4.0)) as query:
        home, there = query.brain.placement[0][0], query.brain.placement[1]
        stays, comes = there.index(home), (there.index(home) + 1) % 4
        source.feed(range(20))
        query.advance(2.5)  # a report takes the links of the time into account
        query.brain.operations.move_tasks([(1, stays, there[comes]), (1, comes, home)], "they change places")
        query.advance(1.0)
        source.feed(range(20, 40))
        source.end()
        result = query.finish()
    assert traffic(result.progress[-1])["source -> pass"]["tuples"] == {"inProcess": 40, "intraNode": 0, "interNode": 0}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("locality", ["worker", "node"])
@pytest.mark.parametrize("grouping", ["shuffle", "local_or_shuffle"])
def test_incarnations_meet_even_if_tasks_move_between_them(locality, grouping, seed):
    """Sinks go by root; where the way to them keeps near, tasks that move must not change at which of them."""
    name, rng = f"between-{locality}-{grouping}-{seed}", random.Random(seed)
    feeds = [TestSource(open_ended=True) for _ in range(3)]
    flow = tr.Topology("between")
    merged = flow.source(feeds[0], name="source0")
    for number, feed in enumerate(feeds[1:], 1):
        merged = merged.union(flow.source(feed, name=f"source{number}"))
    getattr(merged, grouping)().map(lambda v: v, tasks=4, name="pass").shuffle().sink(Kept(name), tasks=4, name="end")
    policy = tr.Policy(locality=locality, replay="fixed:30s", chaining="off")
    with InProcess(flow, workers=4, policy=policy, seed=seed) as query:
        stage = next(each.id for each in query.brain.program.plan.stages if each.head.name == "pass")
        for turn in range(8):
            for number, feed in enumerate(feeds):
                feed.feed(range(30 * turn + 10 * number, 30 * turn + 10 * number + 10))
            query.turns(rng.randint(1, 4))
            query.brain.operations.move_tasks([(stage, task, rng.randrange(4)) for task in range(4)], "they move about")
            query.turns(rng.randint(4, 8))
            for cell in query._cells.values():
                for task, side in cell.brain.deployment.worker.sources:
                    cell.brain.deployment.completion.replay(task, side, side.ledger.everything())
        for feed in feeds:
            feed.end()
        result = query.finish()
    assert sorted(Kept.written[name]) == list(range(240))
    assert result.progress[-1]["duplicates"] > 0


def test_links_are_counted_once_and_after_a_return_anew():
    class Box:
        def __init__(self, channel, slot, sent):
            self.channel, self.slot, self.sent_total, self.bytes_sent = channel, slot, sent, 10 * sent

    class Task:
        def __init__(self, *boxes):
            self.outlets = {0: type("Outlet", (), {"edge": 0, "boxes": boxes})()}

    peers = {slot: Peer(slot, 1, host, ("", 0)) for slot, host in ((0, "a"), (1, "b"))}
    meter = LinkMeter(0)
    first, second = Box(1, 0, 5), Box(2, 1, 7)
    assert meter.read([Task(first, second)], peers) == (
        LinkReport(0, SAME_WORKER, 5, 50),
        LinkReport(0, OTHER_NODE, 7, 70),
    )
    second.sent_total, second.bytes_sent, second.slot = 9, 90, 0  # the receiver has moved here
    first.sent_total, first.bytes_sent = 2, 20  # this one has left and come back
    assert meter.read([Task(first, second)], peers) == (
        LinkReport(0, SAME_WORKER, 9, 90),
        LinkReport(0, OTHER_NODE, 7, 70),
    )
