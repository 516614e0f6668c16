"""Own and shared queues: who gets what, control records, consumers that die."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailrace as tr
from tailrace.receiving.discipline import Control, PerTask
from tailrace.receiving.shared import Shared, SharedQueueError, check_may_share, may_share
from tailrace.topology.plan import make_plan


def drain(discipline, consumers):
    """Let consumers take turns until nothing is left; each finishes at once."""
    taken = []
    while True:
        found = [(consumer, discipline.claim(consumer)) for consumer in consumers]
        for consumer, _ in found:
            discipline.done(consumer)
        if all(item is None for _, item in found):
            return taken
        taken += [item for _, item in found if item is not None]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers()), max_size=20))
def test_both_hand_out_everything_once(sent):
    for discipline in (PerTask(3), Shared()):
        for task, item in sent:
            discipline.put(task, item)
        assert sorted(drain(discipline, range(3))) == sorted(item for _, item in sent)


def test_per_task_keeps_tuples_where_they_were_sent():
    inbox = PerTask(2)
    inbox.put(0, "a")
    assert inbox.claim(1) is None
    assert inbox.claim(0) == "a"


def test_a_shared_queue_gives_the_oldest_to_whoever_asks():
    inbox = Shared()
    for item in "abc":
        inbox.put(0, item)
    assert [inbox.claim(1), inbox.claim(0), inbox.claim(1)] == ["a", "b", "c"]
    assert inbox.claimed == 3


def test_a_control_record_waits_for_claims_holds_back_what_follows_and_passes_once():
    inbox = Shared()
    inbox.put(0, "a")
    inbox.put(0, "b")
    inbox.put(1, Control("marker"))
    inbox.put(1, "c")
    assert [inbox.claim(0), inbox.claim(1)] == ["a", "b"]
    assert inbox.claim(2) is None
    inbox.done(0)
    assert inbox.claim(0) is None
    inbox.done(1)
    assert inbox.claim(0) == Control("marker")
    assert [inbox.claim(0), inbox.claim(1)] == ["c", None]


def test_a_dead_consumers_claims_go_to_the_others_in_order_and_before_what_followed():
    inbox = Shared()
    for item in ["a", "b", Control("mark"), "c"]:
        inbox.put(0, item)
    assert [inbox.claim(7), inbox.claim(7)] == ["a", "b"]
    assert inbox.release(7) == 2
    assert inbox.claimed == 0
    assert [inbox.claim(1), inbox.claim(2), inbox.claim(1)] == ["a", "b", None]
    inbox.done(1)
    inbox.done(2)
    assert inbox.claim(1) == Control("mark")
    assert inbox.release(7) == 0


@given(st.lists(st.sampled_from(["put", "control", "claim0", "claim1", "done0", "done1", "release0"]), max_size=60))
def test_no_item_is_lost_or_doubled_and_none_overtakes_a_control_record(steps):
    """Items are numbered, and a control record carries how many came before it: all of those must be done by then."""
    inbox, sent = Shared(), 0
    held, done = {0: [], 1: []}, []
    for step in steps:
        if step == "put":
            inbox.put(0, sent)
            sent += 1
        elif step == "control":
            inbox.put(0, Control(sent))
        elif step.startswith("claim"):
            item = inbox.claim(int(step[-1]))
            if isinstance(item, Control):
                assert sorted(done) == list(range(item.record))
            elif item is not None:
                held[int(step[-1])].append(item)
        elif step.startswith("done"):
            inbox.done(int(step[-1]))
            done += held.pop(int(step[-1]))
            held[int(step[-1])] = []
        else:
            assert inbox.release(0) == len(held[0])
            held[0] = []
    waiting = [item for item in inbox._queue if not isinstance(item, Control)]
    assert sorted([*done, *held[0], *held[1], *waiting]) == list(range(sent))


def stage_of(draw, operator):
    flow = tr.Topology("shares")
    draw(flow.source(tr.sources.items([1])))
    plan = make_plan(flow)
    stage = next(stage for stage in plan.stages if stage.head.name == operator)
    return stage, plan.inputs[stage.id]


def test_shuffle_fed_stateless_operators_may_share():
    shared = stage_of(lambda s: s.shuffle().map(len, tasks=3, name="m").sink(tr.sinks.discard(), tasks=1), "m")
    assert may_share(*shared)
    check_may_share(*shared)


@pytest.mark.parametrize(
    ("draw", "operator"),
    [
        (lambda s: s.key_by(len).count(tasks=3, name="c").sink(tr.sinks.discard(), tasks=1), "c"),
        (lambda s: s.key_by(len).map(len, tasks=3, name="m").sink(tr.sinks.discard(), tasks=1), "m"),
        (lambda s: s.shuffle().sink(tr.sinks.discard(), tasks=3, name="s"), "s"),
        (lambda s: s.broadcast().map(len, tasks=3, name="m").sink(tr.sinks.discard(), tasks=1), "m"),
    ],
)
def test_asking_for_a_shared_queue_elsewhere_is_a_named_error(draw, operator):
    with pytest.raises(SharedQueueError, match=operator):
        check_may_share(*stage_of(draw, operator))
