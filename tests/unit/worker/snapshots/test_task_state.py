"""A task as plain data and back: another one goes on as the one before it, with all of it or with some key groups."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.worker.mesh import Mesh
from tests.unit.worker.rig import Captured, Kept

import tailrace as tr
from tailrace.checkpoint.keyed import delta_of, keyed_part
from tailrace.config import Policy, Settings
from tailrace.program.errors import MoveError
from tailrace.routing.fields import group_of
from tailrace.state import snapshot
from tailrace.state.backend import Delta
from tailrace.state.errors import SnapshotVersionError
from tailrace.state.snapshot import TaskSnapshot
from tailrace.testing import TestSource
from tailrace.topology.contracts import Sink
from tailrace.worker.execution.keyed_steps import StatefulStep
from tailrace.worker.snapshots import key_group_snapshot, task_snapshot, task_state
from tailrace.worker.snapshots.key_group_snapshot import KeyGroups

GROUPS = 16
HERE, THERE = 0, 1
WORDS = ["to", "be", "or", "not", "to", "be", "that", "is", "the", "question"]
#: The count, on worker 1, sits between a source and a sink on worker 0.
PLACEMENT = [[HERE], [THERE], [HERE]]


def counting(words=(), *, settings=None):
    flow = tr.Topology("words")
    source = flow.source(TestSource(words, open_ended=True), tasks=1, name="source")
    source.key_by(lambda word: word).count(tasks=1, name="count").shuffle().sink(Kept("state"), tasks=1, name="kept")
    return Mesh(flow, PLACEMENT, policy=Policy(chaining="off"), settings=settings or Settings(key_groups=GROUPS))


def counted(words):
    """A mesh whose count has applied these words, and whose sink has not heard of it."""
    mesh = counting(words)
    while mesh.turn(HERE) | mesh.turn(THERE):
        mesh.mail.pop((THERE, HERE), None)
    return mesh


def written(taken):
    return snapshot.decode(snapshot.encode(taken), TaskSnapshot)


def states(task, operator="count"):
    return dict(task.chain.steps[operator].state.items())


@given(st.lists(st.sampled_from(WORDS), max_size=30))
def test_a_task_that_was_restored_has_the_state_of_the_other(words):
    task, other = counted(words).task("count"), counting().task("count")
    task_state.restore(other, written(task_state.take(task)))
    assert states(other) == states(task) == Counter(words)
    assert len(other.deduplicator) == len(task.deduplicator) == len(words)
    assert task_state.take(other).operators == task_state.take(task).operators


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30), st.sets(st.integers(0, GROUPS - 1)))
def test_some_key_groups_are_a_part_of_the_state_and_the_rest_is_the_rest(words, chosen):
    task, other = counted(words).task("count"), counting().task("count")
    groups = frozenset(chosen)
    part = written(task_state.take_groups(task, groups))
    assert [keyed.groups for each in part.operators.values() for keyed in each.keyed] == [sorted(groups)]
    task_state.restore(other, part)
    wanted = {word: count for word, count in Counter(words).items() if group_of(word, GROUPS) in groups}
    assert states(other) == wanted
    key_group_snapshot.give_away(task, groups)
    assert states(task) == {word: count for word, count in Counter(words).items() if word not in wanted}


def test_what_was_given_is_sent_again_by_the_task_that_was_restored():
    mesh, there = counted(["to", "be"]), counting()
    task, other = mesh.task("count"), there.task("count")
    task_state.restore(other, written(task_state.take(task)))
    (box,) = other.boxes
    assert not box.values
    for lineage in [each for generation in task.deduplicator._generations for each in generation.seen]:
        given = other.deduplicator.recall(lineage)
        given.emit_again(given.index_of(lineage), 1, 2)
    assert sorted(box.values) == [("be", 1), ("to", 1)]


def test_with_marks_what_no_source_sends_again_is_left_out():
    mesh = counted(["to", "be", "or"])
    task = mesh.task("count")
    (partition,) = task.deduplicator.newest()
    assert len(task_state.take(task).deduplicator.generations) == 1
    assert len(task_state.take(task, {partition: 2}).deduplicator.generations) == 1
    below = task_state.take(task, {partition: 3})
    assert below.deduplicator.generations == []
    assert below.deduplicator.marks == {partition: 3}
    assert below.operators == task_state.take(task).operators


def test_a_source_tells_how_far_it_has_read_and_how_far_all_is_complete():
    mesh = counted(["to", "be", "or"])
    source = written(task_state.take(mesh.task("source"))).source
    assert list(source.next_offsets.values()) == [3]
    assert list(source.low_water.values()) == [0]


def test_queues_and_counters_go_along_with_a_move_only():
    mesh = counting(WORDS)
    mesh.turn(HERE)
    mesh.deliver(THERE)
    task, other = mesh.task("count"), counting().task("count")
    waiting = [(batch.values, batch.heads) for _, batch, _ in task.inbox.waiting]
    assert waiting
    task.chain.head.skipped, task.chain.head.dead_letters, task.tuples_in = 3, 2, 17
    task.boxes[0].put(task.inbox.waiting[0][1])
    task.boxes[0].sent_total = 9
    (channel,) = task.inbox.channels.values()
    channel.ended = True
    parcel = task_snapshot.unpack(task_snapshot.pack(task, 100, {}))
    assert parcel.snapshot == task_state.take(task)
    task_snapshot.install(other, parcel, 200)
    assert [(batch.values, batch.heads) for _, batch, _ in other.inbox.waiting] == waiting
    ages = [200 - since_ns for _, _, since_ns in other.inbox.waiting]
    assert ages == [100 - since_ns for _, _, since_ns in task.inbox.waiting]
    assert (other.chain.head.skipped, other.chain.head.dead_letters, other.tuples_in) == (3, 2, 17)
    assert (other.boxes[0].values, other.boxes[0].heads) == (task.boxes[0].values, task.boxes[0].heads)
    assert other.boxes[0].sent_total == 9
    assert other.counters() == task.counters()
    (there,) = other.inbox.channels.values()
    assert there.ended
    # What came at the old place takes no room in the counts of the new one.
    assert (there.received, there.consumed, there.stale) == (0, 0, sum(len(values) for values, _ in waiting))


def test_what_waits_for_key_groups_comes_by_the_channels_of_the_new_task():
    flow = tr.Topology("two")
    source = flow.source(TestSource(WORDS, open_ended=True), tasks=1, name="source")
    source.key_by(lambda word: word).count(tasks=2, name="count").shuffle().sink(Kept("two"), tasks=1, name="kept")
    settings = Settings(key_groups=GROUPS)
    mesh = Mesh(flow, [[0], [0, 1], [0]], policy=Policy(chaining="off"), settings=settings)
    mesh.turn(0)
    mesh.deliver(1)
    old, new = mesh.task("count", 1), mesh.task("count", 0)
    keys = KeyGroups(mesh.brains[0].deployment.program, old.stage.id)
    everything = frozenset(range(GROUPS))
    _, go = keys.divide(list(old.inbox.waiting), everything)
    came = len(new.inbox.waiting)
    arrival = key_group_snapshot.unpack(new, key_group_snapshot.pack(old, everything, go, 5))
    assert len(new.inbox.waiting) == came  # nothing is changed before all have agreed
    key_group_snapshot.take_in(new, keys, arrival, 9)
    first = [batch.values for _, batch, _ in new.inbox.waiting][: len(go)]
    assert first == [batch.values for _, batch, _ in go]
    assert all(channel is new.inbox.channels[channel.id] for channel, _, _ in new.inbox.waiting)


def test_a_parcel_of_a_newer_version_is_refused_by_name():
    data = bytearray(task_snapshot.pack(counting().task("count"), 0, {}))
    data[3] += 1
    with pytest.raises(SnapshotVersionError, match="format version 2"):
        task_snapshot.unpack(bytes(data))


@given(st.dictionaries(st.integers(), st.lists(st.integers())), st.dictionaries(st.text(), st.binary()))
def test_a_delta_is_read_as_it_was_written(values, encoded):
    delta = Delta(values, encoded, [*values, "gone"])
    assert delta_of(keyed_part(delta, since=3)) == delta


# -- users' objects --------------------------------------------------------------------------------------------------


class Plain:
    """An operator by its methods alone."""

    def __init__(self):
        self.seen = 0

    def open(self, ctx):
        self.ctx = ctx

    def process(self, value):
        self.seen += value

    def tick(self, now_s):
        """Do nothing."""

    def close(self):
        """Do nothing."""


class Tells(Plain):
    """It has a snapshot() but no restore()."""

    def snapshot(self):
        return {"seen": self.seen * 10}


class TellsAndTakes(Tells):
    """It has both."""

    def restore(self, state):
        self.seen = state["seen"] + 1


class Derived(tr.Operator):
    """As the documentation has it."""

    def __init__(self):
        self.seen = 0

    def open(self, ctx):
        self.ctx = ctx

    def process(self, value):
        self.seen += value


@pytest.mark.parametrize(("kind", "seen"), [(Plain, 3), (Tells, 30), (TellsAndTakes, 31), (Derived, 3)])
def test_a_users_object_goes_on_whatever_it_is_derived_from(kind, seen):
    one, other = Captured("process", kind), Captured("process", kind)
    for each in (one, other):
        each.step.open()
    one.feed([[1], [2]])
    other.step.user_state.restore(one.step.user_state.snapshot())
    assert other.step.user.seen == seen
    assert other.step.user.ctx is other.step.ctx


class Buffers(Sink):
    """A sink that keeps something back and speaks of it."""

    def __init__(self):
        self.held = []

    def write(self, values):
        self.held += values

    def snapshot(self):
        return {"held": self.held}


def test_a_sink_goes_on_with_what_it_speaks_of_and_others_with_nothing():
    one, other = Captured("sink", Buffers()), Captured("sink", Buffers())
    one.feed([[1], [2]])
    other.step.user_state.restore(one.step.user_state.snapshot())
    assert other.step.sink.held == [1, 2]
    silent = Captured("sink", Kept("silent")).step
    assert silent.user_state.snapshot() is None
    silent.user_state.restore(None)


def test_a_function_has_no_state_and_is_found_to_have_none():
    for verb, fn in [("process", lambda value: [value]), ("map", str)]:
        step = Captured(verb, fn).step
        assert step.user_state is None
        assert not isinstance(step, StatefulStep)


def test_what_cannot_be_encoded_is_named():
    flow = tr.Topology("held")
    source = flow.source(TestSource(open_ended=True), name="source")
    source.shuffle().process(Held(), tasks=1, name="held").shuffle().sink(Kept("held"), name="kept")
    task = Mesh(flow, PLACEMENT).task("held")
    with pytest.raises(MoveError, match="'stream' of its object") as raised:
        task_state.take(task)
    assert "snapshot()" in raised.value.hint


class Held(Derived):
    """Has something that cannot be sent."""

    def open(self, ctx):
        self.stream = (number for number in range(3))
