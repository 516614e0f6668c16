"""Key groups that move while whole queries run in process: nothing lost or doubled, order kept, whatever happens."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from dataclasses import replace
from operator import itemgetter

import pytest
from tests.unit.worker.operations.test_moving import COUNT, KEYS, Follow, check, flow_of, some_moves
from tests.unit.worker.rig import Kept

import tailrace as tr
from tailrace.batch import numbers, root_id
from tailrace.config import Policy, Settings
from tailrace.program.errors import MoveError
from tailrace.routing import key_table
from tailrace.routing.fields import group_of
from tailrace.sending.outbox import Outbox
from tailrace.testing import InProcess, TestSource
from tailrace.worker.exchange.outlet import Outlet

GROUPS = 16
FEW = Settings(key_groups=GROUPS)
SMALL_FEW = Settings(max_pending=48, inbox_tuples=256, outbox_tuples=32, batch_max=8, key_groups=GROUPS)


def stage_of(query, name):
    return next(stage.id for stage in query.brain.program.plan.stages if stage.head.name == name)


def some_groups(query, stage, rng):
    """Any groups to any tasks, but no task both gives and takes."""
    present = query.brain.operations.key_tasks(stage)
    tasks = sorted(set(range(query.brain.program.plan.stages[stage].tasks)))
    takers = rng.sample(tasks, rng.randint(1, len(tasks) - 1))
    groups = [group for group, task in enumerate(present) if task not in takers]
    return {group: rng.choice(takers) for group in rng.sample(groups, rng.randint(0, len(groups)))}


def move_about(query, source, rng, stages, *, times=8, between=lambda: None):
    """Feed the source bit by bit, and ask for moves of any groups all the while."""
    for number in range(times):
        source.feed(range(number * COUNT // times, (number + 1) * COUNT // times))
        query.turns(rng.randint(0, 8))
        stage = stage_of(query, rng.choice(stages))
        query.brain.operations.move_keys(stage, some_groups(query, stage, rng), "a test asks")
        query.turns(rng.randint(0, 30))
        between()
        if rng.random() < 0.4:
            query.advance(0.05)
    source.end()
    query.finish()


@pytest.mark.parametrize("seed", range(30))
def test_any_groups_move_at_any_time_and_the_result_is_the_same(seed):
    rng = random.Random(seed)
    policy = Policy(chaining=rng.choice(["on", "off"]), replay=rng.choice(["off", "fixed:30s"]))
    settings = rng.choice([SMALL_FEW, FEW])
    source = TestSource(open_ended=True)
    with InProcess(flow_of("regrouped", source), workers=3, settings=settings, seed=seed, policy=policy) as query:
        move_about(query, source, rng, ["follow", "last"])
        told = list(query.brain.operations.told)
        assert any(plan.state == "done" for plan in told), [(plan.state, plan.reason) for plan in told]
        assert query.result().counters["replays"] == 0
    check("regrouped")


@pytest.mark.parametrize("seed", range(12))
def test_tasks_and_groups_move_in_turn(seed):
    """A task that has groups of others, or sends by a table, takes that along."""
    rng = random.Random(seed)
    source = TestSource(open_ended=True)
    with InProcess(flow_of("both", source), workers=3, settings=SMALL_FEW, seed=seed) as query:

        def move_tasks():
            query.brain.operations.move_tasks(some_moves(query, rng), "a test asks")

        move_about(query, source, rng, ["follow", "last"], between=move_tasks)
        assert query.brain.operations.moved > 0
        assert any(plan.state == "done" for plan in query.brain.operations.told)
    check("both")


@pytest.mark.parametrize("seed", range(12))
def test_order_holds_per_key_behind_groups_that_move(seed):
    rng = random.Random(seed)
    source = TestSource(open_ended=True)
    flow = tr.Topology("order")
    keyed = flow.source(source).key_by(lambda value: value % KEYS).process(Follow(), tasks=3, name="first")
    keyed.key_by(lambda row: row[0]).process(Follow(), tasks=2, name="second").sink(Kept("key order"), tasks=1)
    with InProcess(flow, workers=3, settings=SMALL_FEW, seed=seed, policy=Policy(chaining="off")) as query:
        move_about(query, source, rng, ["first", "second"])
        assert any(plan.state == "done" for plan in query.brain.operations.told)
    for key in range(KEYS):
        assert [row[1][1] for row in Kept.written["key order"] if row[0] == key] == list(range(key, COUNT, KEYS))


def test_a_key_that_changes_its_part_does_not_overtake_itself_within_a_batch():
    """Moved once before, cut again now: older roots of the batch are in one part, newer ones in another."""
    table = key_table.first_table(2, 4)
    moved = key_table.moved(key_table.cut(table, 2, {0: 1}, {1: 0}, {}), 2, {0: 1})
    again = key_table.cut(moved, 2, {3: 0}, {1: 50}, {})
    boxes = [Outbox(task, 0, task, 1000) for task in range(2)]
    outlet = Outlet(0, key_table.rule_for(again, itemgetter(0), 2), boxes, None, sole=True)
    outlet.branch(key_table.ways_beyond(again, 2))
    keys = [value % 10 for value in range(100)]
    heads = numbers(number for offset in range(100) for number in (root_id(1, offset), 256, offset + 1))
    assert outlet.emit(heads, [(key, at) for at, key in enumerate(keys)], None) is None
    by_key = {}
    for box in boxes:
        for key, at in box.values:
            by_key.setdefault(key, []).append(at)
    assert by_key == {key: list(range(key, 100, 10)) for key in range(10)}
    assert all(len(box.sizes) * 3 == len(box.heads) for box in boxes)


def several(value):
    """Three keys at once, so that a bundle is cut; and each key from many values."""
    return [value % KEYS, (value * 3 + 1) % KEYS, (value * 7 + 2) % KEYS]


def counts(name, source):
    flow = tr.Topology("counts")
    keys = flow.source(source, tasks=2, name="source").shuffle().flat_map(several, tasks=2, name="several")
    counted = keys.key_by(lambda key: key).count(tasks=3, name="count")
    counted.shuffle().sink(Kept(name), tasks=1, name="kept")
    return flow


def exact(name):
    """Every count of every key once: none was lost, none applied twice."""
    totals = Counter(key for value in range(COUNT) for key in several(value))
    assert Counter(Kept.written[name]) == Counter((key, n) for key in totals for n in range(1, totals[key] + 1))


@pytest.mark.parametrize("seed", range(30))
def test_what_is_sent_again_meets_the_memory_of_the_task_that_had_its_keys(seed):
    """Replays that are far too early keep coming while groups move: every guard needs what the one before it knew."""
    rng = random.Random(seed)
    source = TestSource(open_ended=True, partitions=3)
    policy = Policy(chaining="off", replay="blind:0.5")
    settings = rng.choice([SMALL_FEW, FEW])
    with InProcess(counts("again", source), workers=3, settings=settings, seed=seed, policy=policy) as query:
        move_about(query, source, rng, ["count"], between=lambda: query.turns(rng.randint(0, 30)))
        assert any(plan.state == "done" for plan in query.brain.operations.told)
        result = query.result().counters
        assert result["replays"] > 0
    exact("again")


def arrange(query, places):
    """Put every task where a test wants it; gives the stage that counts."""
    wanted = [(stage_of(query, name), at, slot) for name, row in places.items() for at, slot in enumerate(row)]
    query.brain.operations.move_tasks(wanted, "a test arranges")
    query.advance(1.0)
    assert query.brain.operations.idle
    return stage_of(query, "count")


@pytest.mark.parametrize("seed", range(40))
def test_workers_lost_at_any_step_lose_no_tuple_and_double_none(seed):
    """Workers that have sources and what keeps nothing are lost; a plan is carried out by all or undone by all."""
    rng = random.Random(seed)
    source = TestSource(open_ended=True, partitions=3)
    settings = rng.choice([SMALL_FEW, FEW])
    with InProcess(counts("lossy keys", source), workers=4, settings=settings, seed=seed) as query:
        arrange(query, {"source": [2, 3], "several": [2, 3], "count": [0, 1, 0], "kept": [1]})

        def lose_one():
            if rng.random() < 0.6:
                (query.kill if rng.random() < 0.7 else query.cut_off)(rng.choice([2, 3]))
                query.turns(rng.randint(0, 20))

        move_about(query, source, rng, ["count"], between=lose_one)
        assert query.brain.restarts > 0
        told = {plan.phase for plan in query.brain.operations.told}
        assert told <= {"done", "undone", "waiting", "moving", "switching"}
    exact("lossy keys")


def until_step(query, plan, *steps):
    for _ in range(2000):
        if plan.state in steps or plan.over:
            break
        query.turns(1)
    assert plan.state in steps


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("step", "state"),
    [("hold", "undone"), ("cut", "undone"), ("drain", "undone"), ("transfer", "undone"), ("switch", "done")],
)
def test_a_source_lost_at_a_step_undoes_the_plan_unless_it_is_decided(step, state, seed):
    """What is cut off stays so, and the next plan begins from there."""
    source = TestSource(open_ended=True, partitions=3)
    with InProcess(counts("stepwise", source), workers=4, settings=SMALL_FEW, seed=seed) as query:
        count = arrange(query, {"source": [2, 2], "several": [3, 3], "count": [0, 1, 0], "kept": [1]})
        source.feed(range(COUNT // 2))
        query.turns(5)
        (plan,) = query.brain.operations.move_keys(count, {0: 1, 1: 1, 14: 1}, "a test asks")
        if step == "drain":
            until_step(query, plan, "cut")
            until_step(query, plan, "drain", "transfer")  # with few roots open it is over at once
        else:
            until_step(query, plan, step)
        query.kill(2)
        query.turns(20)
        (again,) = query.brain.operations.move_keys(count, {2: 2, 3: 2}, "a test asks again")
        source.feed(range(COUNT // 2, COUNT))
        query.advance(3.0)
        assert (plan.state, again.state) == (state, "done")
        source.end()
        query.finish()
        assert query.brain.restarts == 1
    exact("stepwise")


@pytest.mark.parametrize("seed", range(6))
def test_a_new_task_lost_before_it_has_the_keys_takes_none_of_them_along(seed):
    """What its own keys had is gone with it; those that were on their way go on where they were."""
    source = TestSource(open_ended=True, partitions=3)
    settings = replace(SMALL_FEW, lost_state="accept")
    with InProcess(counts("stay", source), workers=4, settings=settings, seed=seed) as query:
        count = arrange(query, {"source": [2, 2], "several": [3, 3], "count": [0, 1, 0], "kept": [0]})
        present = query.brain.operations.key_tasks(count)
        source.feed(range(COUNT // 2))
        query.turns(5)
        (plan,) = query.brain.operations.move_keys(count, dict.fromkeys(range(3), 1), "a test asks")
        until_step(query, plan, "transfer")
        query.turns(seed)
        if plan.phase == "moving":
            query.kill(1)
            query.turns(1)
            assert (plan.state, plan.reason) == ("undone", "worker 1 was lost")
        source.feed(range(COUNT // 2, COUNT))
        source.end()
        query.finish()
    totals = Counter(key for value in range(COUNT) for key in several(value))
    safe = {key for key in totals if present[group_of(key, GROUPS)] != 1}
    kept = Counter(row for row in Kept.written["stay"] if row[0] in safe)
    assert kept == Counter((key, n) for key in safe for n in range(1, totals[key] + 1))


def test_a_successor_and_a_newcomer_go_by_the_present_table():
    source = TestSource(range(KEYS), open_ended=True)
    flow = tr.Topology("table")
    keys = flow.source(source, tasks=1, name="source").shuffle().map(lambda value: value, tasks=2, name="same")
    keys.key_by(lambda value: value).count(tasks=2, name="count").shuffle().sink(Kept("table"), tasks=1, name="kept")
    with InProcess(flow, workers=3, settings=FEW, policy=Policy(chaining="off")) as query:
        count = stage_of(query, "count")
        moves = [(stage_of(query, "same"), 0, 2), (stage_of(query, "same"), 1, 2), (count, 0, 0), (count, 1, 1)]
        query.brain.operations.move_tasks(moves, "a test asks")
        query.advance(0.5)
        (plan,) = query.brain.operations.move_keys(count, dict.fromkeys(range(GROUPS), 1), "a test asks")
        query.advance(2.5)
        assert plan.state == "done"
        assert query.brain.operations.key_tasks(count) == [1] * GROUPS
        query.kill(2)
        query.advance(0.5)
        source.feed(range(KEYS))
        query.advance(0.5)
        rows = query.brain.members[1].report.tasks + query.brain.members[0].report.tasks
        assert {row.task: row.inbox for row in rows if row.stage == count} == {0: 0, 1: 0}
        source.end()
        query.finish()
    assert Counter(Kept.written["table"]) == Counter((key, n) for key in range(KEYS) for n in (1, 2))


async def rather_slowly(value):
    await asyncio.sleep(0.02)
    return value


@pytest.mark.parametrize(
    ("replay", "reason"),
    [
        ("fixed:300s", "longer than 1 s: tuples sent before the keys were cut off are still open"),
        ("off", "longer than 1 s: task 0 did not let its keys go"),
    ],
)
def test_a_move_that_cannot_be_made_in_time_is_undone_and_can_be_made_later(replay, reason):
    """Behind the keys 400 tuples take 8 s: roots stay open so long, and outboxes full."""
    source = TestSource(range(400), open_ended=True)
    flow = tr.Topology("late")
    counted = flow.source(source).key_by(lambda value: value % 6).count(tasks=2, name="count")
    counted.shuffle().map(rather_slowly, tasks=1, concurrency=1).sink(Kept("late keys"), tasks=1)
    settings = Settings(key_groups=GROUPS, key_move_wait_s=1.0, move_timeout_s=1.0, inbox_tuples=64)
    with InProcess(flow, workers=3, settings=settings, policy=Policy(replay=replay)) as query:
        query.advance(0.5)
        count = stage_of(query, "count")
        groups = [group for group, task in enumerate(query.brain.operations.key_tasks(count)) if task == 0]
        (plan,) = query.brain.operations.move_keys(count, dict.fromkeys(groups, 1), "a test asks")
        query.advance(2.0)
        assert plan.state == "undone"
        assert reason in plan.reason
        query.advance(10.0)
        (again,) = query.brain.operations.move_keys(count, dict.fromkeys(groups, 1), "now it can")
        query.advance(3.0)
        assert again.state == "done"
        source.feed(range(100))
        source.end()
        query.finish()
    totals = Counter(value % 6 for value in (*range(400), *range(100)))
    assert Counter(Kept.written["late keys"]) == Counter((key, n) for key in totals for n in range(1, totals[key] + 1))


def holds(key, value, state):
    """Keeps something that cannot be sent to another process."""
    if state.get() is None:
        state.set([threading.Lock(), 0])
    state.get()[1] += 1
    yield key, state.get()[1]


def test_state_that_cannot_travel_stays_where_it_is():
    source = TestSource(range(20), open_ended=True)
    flow = tr.Topology("held")
    flow.source(source).key_by(lambda value: value % 6).process(holds, tasks=2, name="holds").sink(Kept("held keys"))
    with InProcess(flow, workers=2, settings=FEW) as query:
        query.advance(0.1)
        held = stage_of(query, "holds")
        for task in (0, 1):
            (plan,) = query.brain.operations.move_keys(held, dict.fromkeys(range(GROUPS), task), "a test asks")
            source.feed(range(20))
            query.advance(2.0)
            assert plan.state == "undone"
            assert "lock" in plan.reason
        source.end()
        query.finish()
    totals = Counter(value % 6 for _ in range(3) for value in range(20))
    assert Counter(Kept.written["held keys"]) == Counter((key, n) for key in totals for n in range(1, totals[key] + 1))


class Counts(tr.Operator):
    """Keeps what it knows of keys by itself."""

    def __init__(self):
        self.counts = Counter()

    def process(self, value):
        self.counts[value] += 1
        return [(value, self.counts[value])]


def test_what_has_no_keys_to_move_is_refused_by_name():
    flow = tr.Topology("refused")
    source = flow.source(TestSource(open_ended=True), name="source")
    mapped = source.shuffle().map(str, tasks=2, name="mapped")
    keyed = mapped.key_by(lambda value: value)
    keyed.count(tasks=2, name="count").sink(Kept("refused keys"))
    keyed.process(Counts(), tasks=2, name="own").sink(Kept("refused keys too"))
    with InProcess(flow, workers=2, policy=Policy(chaining="off")) as query:
        ask = query.brain.operations.move_keys
        with pytest.raises(MoveError, match="'mapped' has shuffle"):
            ask(stage_of(query, "mapped"), {0: 1}, "a test asks")
        with pytest.raises(MoveError, match="tasks 0 to 1; found 7"):
            ask(stage_of(query, "count"), {0: 7}, "a test asks")
        with pytest.raises(MoveError, match="key groups 0 to 1023; found 5000"):
            ask(stage_of(query, "count"), {5000: 1}, "a test asks")
        with pytest.raises(MoveError, match="both give key groups away and get some"):
            ask(stage_of(query, "count"), {0: 1, 1023: 0}, "a test asks")
        with pytest.raises(MoveError, match="'Counts', which may keep something per key by itself"):
            ask(stage_of(query, "own"), {0: 1}, "a test asks")
        assert ask(stage_of(query, "count"), {0: 0}, "it is there already") == []


def test_under_partial_key_there_are_no_groups():
    flow = tr.Topology("two tasks")
    flow.source(TestSource(open_ended=True)).key_by(str).count(tasks=2, name="count").sink(Kept("two tasks"))
    with (
        InProcess(flow, workers=2, policy=Policy(routing="partial_key")) as query,
        pytest.raises(MoveError, match=r"a key of .* has two tasks"),
    ):
        query.brain.operations.move_keys(1, {0: 1}, "a test asks")
