"""All kinds of operations at once in whole queries in process, with losses, under ``validate()`` in every turn."""

from __future__ import annotations

import contextlib
import random

import pytest
from tests.unit.worker.mesh import Mesh
from tests.unit.worker.operations.test_key_moving import SMALL_FEW, arrange, counts, exact, some_groups, stage_of
from tests.unit.worker.operations.test_moving import COUNT, check, flow_of
from tests.unit.worker.rig import Kept

from tailrace.config import Policy, Settings
from tailrace.program.errors import InvariantError, MoveError
from tailrace.testing import InProcess, TestSource
from tailrace.transport import wire

STATELESS = ("source", "several")


def some_operation(query, rng):
    """Ask for anything that may be asked for; tasks without state go anywhere but to workers 0 and 1."""
    count = stage_of(query, "count")
    kind = rng.choice(["tasks", "tasks", "keys", "keys", "switch", "join", "leave"])
    slots = [slot for slot in query.brain.operations.cluster.open_slots if slot > 1]
    if kind == "tasks" and slots:
        stage = stage_of(query, rng.choice(STATELESS))
        query.brain.operations.move_tasks([(stage, rng.randrange(2), rng.choice(slots))], "a test asks")
    elif kind == "keys":
        query.brain.operations.move_keys(count, some_groups(query, count, rng), "a test asks")
    elif kind == "switch":
        query.brain.switch(
            {"routing": rng.choice(["even", "shortest_delay"]), "replay": rng.choice(["adaptive", "fixed:30s"])}
        )
    elif kind == "join" and len(query.brain.members) < 6:
        for slot in query.brain.membership.expect(1):
            query._register(slot)
    elif kind == "leave" and len(slots) > 2:
        query.brain.operations.leave([slots[-1]], "a test asks")


#: In 721 a worker credits what came before a task left it, after its new place was lost.
@pytest.mark.parametrize("seed", [*range(40), 721])
def test_whatever_is_asked_for_and_whoever_is_lost_the_counts_are_exact(seed):
    rng = random.Random(seed)
    source = TestSource(open_ended=True, partitions=3)
    policy = Policy.auto(chaining="off", inbox="per_task")
    with InProcess(counts("all kinds", source), workers=4, settings=SMALL_FEW, seed=seed, policy=policy) as query:
        arrange(query, {"source": [2, 3], "several": [2, 3], "count": [0, 1, 0], "kept": [1]})
        for number in range(12):
            source.feed(range(number * COUNT // 12, (number + 1) * COUNT // 12))
            for _ in range(rng.randint(0, 3)):
                with contextlib.suppress(MoveError):  # the queue is full, or the worker it should go to is not open
                    some_operation(query, rng)
                query.turns(rng.randint(0, 12))
            if rng.random() < 0.25:
                loses = query.kill if rng.random() < 0.7 else query.cut_off
                loses(rng.choice([slot for slot in query.brain.members if slot > 1]))
            query.turns(rng.randint(0, 20))
            if rng.random() < 0.2:
                query.advance(0.05)
        source.end()
        query.finish()
        assert query.brain.operations.machine.epoch > 3
    exact("all kinds")


def test_a_worker_that_registers_while_tasks_move_waits_and_knows_the_new_places_then():
    """It would have no part in the move and be waited for all the same, and begin with the old placement."""
    source = TestSource(open_ended=True)
    settings = Settings(max_pending=48, inbox_tuples=256, outbox_tuples=32, batch_max=8)
    with InProcess(flow_of("newcomer", source), workers=3, settings=settings, policy=Policy(chaining="off")) as query:
        source.feed(range(COUNT // 2))
        query.turns(3)
        operations = query.brain.operations
        follow = stage_of(query, "follow")
        (moved,) = operations.move_tasks([(follow, 0, (query.brain.placement[follow][0] + 1) % 3)], "a test asks")
        while moved.state != "transfer":
            query.turns(1)
        (slot,) = query.brain.membership.expect(1)
        query._register(slot)
        assert query.brain.operations.cluster.waiting_slots == {slot}
        query.advance(0.5)
        assert (moved.state, query.brain.members[slot].open) == ("done", True)
        newcomer = next(cell.brain for cell in query._cells.values() if cell.brain.slot == slot)
        assert newcomer.deployment.site.placement == query.brain.placement
        operations.move_tasks([(follow, 1, slot), (follow, 2, slot)], "it gets its share")
        source.feed(range(COUNT // 2, COUNT))
        query.advance(0.5)
        source.end()
        query.finish()
        assert operations.moved == 3
    check("newcomer")


def test_a_newcomer_that_is_lost_before_it_takes_part_is_replaced_by_one_that_waits_as_well():
    source = TestSource(open_ended=True)
    with InProcess(flow_of("lost newcomer", source), workers=2, policy=Policy(chaining="off")) as query:
        (slot,) = query.brain.membership.expect(1)
        query._register(slot)
        query.kill(slot)
        assert query.brain.operations.cluster.waiting_slots == {slot}
        query.advance(0.5)
        assert query.brain.members[slot].open
        assert query.brain.restarts == 0
        source.feed(range(COUNT))
        source.end()
        query.finish()
    check("lost newcomer")


def test_a_credit_counts_only_from_where_the_channel_leads():
    """A task has left worker 1, its new place was lost: the channel is in its first epoch again, as it was before."""
    mesh = Mesh(flow_of("late credit", TestSource(range(40))), [[0], [1, 1, 1], [2, 2], [2, 2], [2, 2]])
    mesh.work(0)
    mesh.flush(0)
    delivery = mesh.brains[0].deployment.delivery
    box = next(box for box in mesh.task("source").boxes if box.sent)
    frame = wire.CREDIT.pack(box.sent, 0)
    delivery.receive([(wire.CREDITS, box.channel, frame)], 2)
    assert box.consumed == 0
    delivery.receive([(wire.CREDITS, box.channel, frame)], 1)
    assert box.consumed == box.sent


def spoil_the_window(brain):
    box = next(iter(brain.deployment.worker.outbound.values()))
    box.sent += box.window + 100


def spoil_the_inbox(brain):
    task = next(task for task in brain.tasks if task.inbox is not None)
    task.inbox.tuples += 1


def hold_an_outbox(brain):
    next(iter(brain.deployment.worker.outbound.values())).paused = True


def freeze_a_task(brain):
    brain.deployment.worker.freeze(brain.tasks[0])


def lose_a_task(brain):
    brain.deployment.worker.remove(brain.tasks[0])


def consume_too_much(brain):
    channel = next(iter(brain.deployment.worker.inbound.values()))[1]
    channel.consumed = channel.received + 1


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (spoil_the_window, "under way, and its window is"),
        (spoil_the_inbox, "tuples wait for"),
        (hold_an_outbox, "is held, and no operation is under way"),
        (freeze_a_task, "stands still, and no operation is under way"),
        (lose_a_task, "the placement gives it the tasks"),
        (consume_too_much, "tuples were received"),
    ],
)
def test_what_does_not_hold_in_a_worker_is_named(spoil, what):
    with InProcess(flow_of("spoiled", TestSource(range(10), open_ended=True)), workers=1) as query:
        query.settle()
        (cell,) = query._cells.values()
        spoil(cell.brain)
        with pytest.raises(InvariantError, match=what):
            cell.brain.validate()


def place_nowhere(brain):
    brain.placement[1][0] = 9


def go_back(brain):
    brain._marks[1] = 3


def wait_for_nobody(brain):
    brain.operations.machine.active.awaited = {next(iter(brain.operations.machine.active.awaited))._replace(slot=9)}


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (place_nowhere, "placed on workers \\[9\\]"),
        (go_back, "the mark of partition 1 went back from 10 to 3"),
        (wait_for_nobody, "waits for worker 9, which is gone"),
    ],
)
def test_what_does_not_hold_in_the_coordinator_is_named(spoil, what):
    with InProcess(flow_of("spoiled", TestSource(range(10), open_ended=True)), workers=2) as query:
        query.advance(2.0)
        query.brain.operations.move_tasks([(1, 0, 1 - query.brain.placement[1][0])], "a test asks")
        query.brain.tick(query.clock.now_ns())
        query.brain.validate()
        spoil(query.brain)
        with pytest.raises(InvariantError, match=what):
            query.brain.validate()
    assert Kept.written["spoiled"]
