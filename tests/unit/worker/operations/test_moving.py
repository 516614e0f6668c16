"""Tasks that move while whole queries run in process: nothing lost, nothing doubled, order kept, whatever happens."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter

import pytest
from tests.unit.worker.rig import Kept

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.program.errors import MoveError
from tailrace.testing import InProcess, TestSource

COUNT = 400
KEYS = 10
SMALL = Settings(max_pending=48, inbox_tuples=256, outbox_tuples=32, batch_max=8)


class Follow(tr.KeyedOperator):
    """Counts per key and over all, and gives each value on with both and with what came before it."""

    def __init__(self):
        self.seen = 0

    def open(self, ctx):
        self.ctx = ctx

    def process(self, key, value, state):
        self.seen += 1
        last, number = state.get() or (-1, 0)
        state.set((value, number + 1))
        yield key, value, last, number + 1


def flow_of(name, source):
    """State twice, then sinks; one source, so that the order of a key's values is known."""
    flow = tr.Topology("moving")
    stream = flow.source(source, tasks=1, name="source")
    keyed = stream.key_by(lambda value: value % KEYS).process(Follow(), tasks=3, name="follow")
    counted = keyed.key_by(lambda row: row[0]).reduce(lambda _, row: row, tasks=2, name="last")
    counted.map(lambda pair: pair[1], name="pick").shuffle().sink(Kept(name), tasks=2, name="kept")
    return flow


def some_moves(query, rng, *, most=3):
    """Any tasks to any workers."""
    placement = query.brain.placement
    tasks = [(stage, task) for stage, row in enumerate(placement) for task in range(len(row))]
    slots = sorted(query.brain.members)
    return [(*task, rng.choice(slots)) for task in rng.sample(tasks, rng.randint(1, most))]


def check(name):
    rows = Kept.written[name]
    assert Counter(row[1] for row in rows) == Counter(range(COUNT))
    # Each value saw the state that the one before it in its key left: none was missed, doubled or out of order.
    for key, value, last, number in rows:
        assert (last, number) == (value - KEYS if value >= KEYS else -1, value // KEYS + 1), key


def move_about(query, source, rng, *, times=8, between=lambda: None):
    """Feed the source bit by bit, and ask for moves of any tasks to any workers all the while."""
    for number in range(times):
        source.feed(range(number * COUNT // times, (number + 1) * COUNT // times))
        query.turns(rng.randint(0, 8))
        query.brain.operations.move_tasks(some_moves(query, rng), "a test asks")
        query.turns(rng.randint(0, 8))
        between()
    source.end()
    query.finish()


@pytest.mark.parametrize("seed", range(30))
def test_any_tasks_move_at_any_time_and_the_result_is_the_same(seed):
    rng = random.Random(seed)
    policy = Policy(chaining=rng.choice(["on", "off"]), replay=rng.choice(["off", "fixed:30s"]))
    settings = rng.choice([SMALL, Settings()])
    source = TestSource(open_ended=True)
    with InProcess(flow_of("moved", source), workers=3, settings=settings, seed=seed, policy=policy) as query:
        move_about(query, source, rng)
        told = query.brain.operations.told
        assert query.brain.operations.moved >= 2
        assert {plan.phase for plan in told} <= {"done", "waiting", "moving", "switching"}
        assert query.result().counters["replays"] == 0
    check("moved")


@pytest.mark.parametrize("seed", range(12))
def test_order_holds_on_every_channel(seed):
    """The values of a key arrive in order at the last operator, though the tasks on their way move again and again."""
    rng = random.Random(seed)
    source = TestSource(open_ended=True)
    flow = tr.Topology("order")
    keyed = flow.source(source).key_by(lambda value: value % KEYS).process(Follow(), tasks=3)
    keyed.key_by(lambda row: row[0]).process(Follow(), tasks=2).sink(Kept("order"), tasks=1)
    with InProcess(flow, workers=3, settings=SMALL, seed=seed, policy=Policy(chaining="off")) as query:
        move_about(query, source, rng)
    for key in range(KEYS):
        assert [row[1][1] for row in Kept.written["order"] if row[0] == key] == list(range(key, COUNT, KEYS))


def stateless(name, source):
    """Nothing but the guard of the only sink remembers anything, so any other worker may be lost."""
    flow = tr.Topology("stateless")
    mapped = flow.source(source, tasks=2).shuffle().map(lambda value: value, tasks=3)
    mapped.shuffle().flat_map(lambda value: [value, value + COUNT], tasks=3).shuffle().sink(Kept(name), tasks=1)
    return flow


@pytest.mark.parametrize("seed", range(40))
def test_workers_lost_in_the_midst_of_moves_lose_no_tuple_and_double_none(seed):
    """A plan is undone by all or carried out by all, whoever dies when; then the ordinary replacement runs."""
    rng = random.Random(seed)
    source = TestSource(open_ended=True, partitions=3)
    settings = rng.choice([SMALL, Settings()])
    policy = Policy(chaining=rng.choice(["on", "off"]))
    with InProcess(stateless("lossy", source), workers=4, settings=settings, seed=seed, policy=policy) as query:
        sink = len(query.brain.placement) - 1
        (sink_slot,) = query.brain.placement[sink]

        def lose_another():
            if rng.random() < 0.6:
                lose = query.kill if rng.random() < 0.7 else query.cut_off
                lose(rng.choice([slot for slot in query.brain.members if slot != sink_slot]))

        for number in range(8):
            source.feed(range(number * COUNT // 8, (number + 1) * COUNT // 8))
            query.turns(rng.randint(0, 4))
            moves = [move for move in some_moves(query, rng) if move[0] != sink]
            if all(query.brain.members[slot].open for _, _, slot in moves):
                query.brain.operations.move_tasks(moves, "a test asks")
            query.turns(rng.randint(0, 10))
            lose_another()
        source.end()
        query.finish()
        # A loss must not be left to the time-out: whoever comes back is sent to at once.
        assert query.clock.now_ns() < 25_000_000_000
    assert Counter(Kept.written["lossy"]) == Counter(range(2 * COUNT))


class Holds(tr.Operator):
    """Has something that cannot be sent to another process."""

    def open(self, ctx):
        self.lock = threading.Lock()

    def process(self, value):
        return [value]


def test_a_task_that_cannot_travel_stays_and_says_what_holds_it():
    source = TestSource(open_ended=True)
    flow = tr.Topology("held")
    flow.source(source).shuffle().process(Holds(), tasks=2, name="holds").shuffle().sink(Kept("held"), tasks=2)
    with InProcess(flow, workers=2) as query:
        source.feed(range(20))
        query.turns(3)
        (plan,) = query.brain.operations.move_tasks([(1, 0, 1 - query.brain.placement[1][0])], "a test asks")
        source.feed(range(20, 40))
        query.settle()
        assert plan.state == "undone"
        assert "'lock'" in plan.reason
        assert "snapshot()" in plan.hint
        source.end()
        result = query.finish()
    assert Counter(Kept.written["held"]) == Counter(range(40))
    assert result.progress[-1]["moves"][-1]["state"] == "undone"
    assert result.counters["replays"] == 0


async def slowly(value):
    await asyncio.sleep(3.0)
    return value


@pytest.mark.parametrize("seed", range(4))
def test_a_move_that_cannot_be_made_in_time_is_undone(seed):
    source = TestSource(range(12), open_ended=True)
    flow = tr.Topology("late")
    words = flow.source(source).shuffle().map(slowly, tasks=2, name="slow", concurrency=2)
    words.key_by(lambda value: value % 3).count(tasks=2).sink(Kept("late"), tasks=2)
    settings = Settings(move_timeout_s=1.0)
    with InProcess(flow, workers=3, settings=settings, seed=seed) as query:
        query.advance(0.5)
        (plan,) = query.brain.operations.move_tasks([(1, 0, 2), (2, 1, 0), (2, 0, 1)], "a test asks")
        query.advance(2.0)
        assert plan.state == "undone"
        assert "longer than 1 s" in plan.reason
        (again,) = query.brain.operations.move_tasks([(2, 1, 0), (2, 0, 1)], "these can")
        query.advance(2.0)
        assert again.state == "done"
        source.end()
        query.finish()
    assert Counter(Kept.written["late"]) == Counter((key, number) for key in range(3) for number in range(1, 5))


def test_queues_that_are_to_be_shared_wait_for_a_move_that_is_under_way():
    source = TestSource(range(12), open_ended=True)
    flow = tr.Topology("sharing")
    flow.source(source).shuffle().map(slowly, tasks=4, name="slow", concurrency=1).shuffle().sink(Kept("sharing"))
    with InProcess(flow, workers=2, policy=Policy.auto(chaining="off"), settings=Settings(move_timeout_s=20)) as query:

        def sharing():
            return any(cell.brain.deployment.worker.groups for cell in query._cells.values())

        query.advance(0.5)
        (plan,) = query.brain.operations.move_tasks([(1, 0, 1 - query.brain.placement[1][0])], "a test asks")
        query.advance(0.5)
        query.brain.switch({"inbox": "shared"})
        while not plan.over:
            query.advance(0.1)
            assert plan.over or not sharing()
        assert plan.state == "done"
        query.advance(0.2)
        assert sharing()
        source.end()
        query.finish()
    assert Counter(Kept.written["sharing"]) == Counter(range(12))


def test_a_task_whose_senders_have_paused_begins_nothing_new():
    """What waits goes along: a slow worker that must be relieved would need long to work it off."""
    source = TestSource(range(12), open_ended=True)
    flow = tr.Topology("still")
    flow.source(source).shuffle().map(slowly, tasks=1, name="slow", concurrency=1).shuffle().sink(Kept("still"))
    with InProcess(flow, workers=2, policy=Policy(chaining="off"), settings=Settings(move_timeout_s=20)) as query:
        query.advance(0.5)
        (plan,) = query.brain.operations.move_tasks([(1, 0, 1 - query.brain.placement[1][0])], "a test asks")
        query.advance(4.0)  # the value at hand takes three seconds; all twelve would take 36
        assert plan.state == "done"
        source.end()
        query.finish()
    assert Kept.written["still"] == list(range(12))


def test_ticks_go_on_at_the_new_place():
    class Ticks(tr.Operator):
        tick_every_s = 1.0

        def __init__(self):
            self.ticks = 0

        def process(self, value):
            return []

        def tick(self, now_s):
            self.ticks += 1
            return [self.ticks]

    source = TestSource(open_ended=True)
    flow = tr.Topology("ticks")
    flow.source(source).shuffle().process(Ticks(), tasks=1, name="ticks").shuffle().sink(Kept("ticks"), tasks=1)
    with InProcess(flow, workers=3, policy=Policy(chaining="off")) as query:
        query.advance(3.5)
        query.brain.operations.move_tasks([(1, 0, (query.brain.placement[1][0] + 1) % 3)], "a test asks")
        query.advance(3.0)
        assert query.brain.operations.moved == 1
        assert Kept.written["ticks"] == list(range(1, len(Kept.written["ticks"]) + 1))
        assert len(Kept.written["ticks"]) >= 5
        source.end()
        query.finish()


def test_what_cannot_move_is_refused_by_name():
    flow = tr.Topology("refused")
    source = flow.source(TestSource(open_ended=True), name="source")
    source.shuffle().map(str, tasks=4, name="shared").sink(Kept("refused"))
    with InProcess(flow, workers=2, policy=Policy(inbox="shared", chaining="off")) as query:
        with pytest.raises(MoveError, match="shared inbox"):
            query.brain.operations.move_tasks([(1, 0, 1 - query.brain.placement[1][0])], "a test asks")
        with pytest.raises(MoveError, match="Worker 7 is not open"):
            query.brain.operations.move_tasks([(0, 0, 7)], "a test asks")
