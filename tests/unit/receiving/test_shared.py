"""The shared queue: who gets what, control items that wait, consumers that die."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailrace as tr
from tailrace.items import End
from tailrace.receiving.shared import InBand, Shared, SharedQueueError, check_may_share, may_share
from tailrace.topology.plan import make_plan


def drain(queue, consumers):
    """Let consumers take turns until nothing is left; each finishes at once."""
    taken = []
    while True:
        found = [(consumer, queue.claim(consumer)) for consumer in consumers]
        for consumer, _ in found:
            queue.done(consumer)
        if all(item is None for _, item in found):
            return taken
        taken += [item for _, item in found if item is not None]


@given(st.lists(st.integers(), max_size=20), st.integers(1, 3))
def test_everything_is_handed_out_once(sent, consumers):
    queue = Shared()
    for item in sent:
        queue.put(item)
    assert sorted(drain(queue, range(consumers))) == sorted(sent)


def test_a_shared_queue_gives_the_oldest_to_whoever_asks():
    queue = Shared()
    for item in "abc":
        queue.put(item)
    assert [queue.claim(1), queue.claim(0), queue.claim(1)] == ["a", "b", "c"]
    assert queue.claimed == 3


def test_a_control_item_waits_for_claims_holds_back_what_follows_and_passes_once():
    queue = Shared()
    queue.put("a")
    queue.put("b")
    end = InBand(1, End())
    queue.put(end)
    queue.put("c")
    assert [queue.claim(0), queue.claim(1)] == ["a", "b"]
    assert queue.claim(2) is None
    queue.done(0)
    assert queue.claim(0) is None
    queue.done(1)
    assert queue.claim(0) is end
    assert [queue.claim(0), queue.claim(1)] == ["c", None]


def test_a_dead_consumers_claims_go_to_the_others_in_order_and_before_what_followed():
    queue = Shared()
    end = InBand(1, End())
    for item in ["a", "b", end, "c"]:
        queue.put(item)
    assert [queue.claim(7), queue.claim(7)] == ["a", "b"]
    assert queue.release(7) == 2
    assert queue.claimed == 0
    assert [queue.claim(1), queue.claim(2), queue.claim(1)] == ["a", "b", None]
    queue.done(1)
    queue.done(2)
    assert queue.claim(1) is end
    assert queue.release(7) == 0


@given(st.lists(st.sampled_from(["put", "control", "claim0", "claim1", "done0", "done1", "release0"]), max_size=60))
def test_no_item_is_lost_or_doubled_and_none_overtakes_a_control_item(steps):
    """Items are numbered, and a control item says how many came before it: all of those must be done by then."""
    queue, sent = Shared(), 0
    held, done = {0: [], 1: []}, []
    for step in steps:
        if step == "put":
            queue.put(sent)
            sent += 1
        elif step == "control":
            queue.put(InBand(sent, End()))
        elif step.startswith("claim"):
            item = queue.claim(int(step[-1]))
            if isinstance(item, InBand):
                assert sorted(done) == list(range(item.channel))
            elif item is not None:
                held[int(step[-1])].append(item)
        elif step.startswith("done"):
            queue.done(int(step[-1]))
            done += held.pop(int(step[-1]))
            held[int(step[-1])] = []
        else:
            assert queue.release(0) == len(held[0])
            held[0] = []
    waiting = [item for item in queue._queue if not isinstance(item, InBand)]
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
