"""A standby's shadows: they follow the objects of a task, begin anew where those do, and are given away once."""

from __future__ import annotations

from collections import deque

import pytest

import tailrace as tr
from tailrace.checkpoint.part import TaskPart, WorkerPart, encode_part
from tailrace.config import Policy, Settings
from tailrace.program.program import Program
from tailrace.protocol import Follow, Followed
from tailrace.state.backend import Delta
from tailrace.state.snapshot import OperatorSnapshot, TaskSnapshot
from tailrace.topology.plan import make_plan
from tailrace.worker.checkpoint.shadows import Shadows
from tailrace.worker.snapshots.task_state import keyed_part


def part(task, values, deleted=()):
    keyed = [keyed_part(Delta(values, {}, list(deleted)))]
    return TaskPart(TaskSnapshot(1, task, {"counts": OperatorSnapshot(keyed)}))


@pytest.fixture
def store():
    return {
        "one": encode_part(WorkerPart(1, [part(0, {"a": 1, "b": 1}), part(1, {"x": 1})])),
        "two": encode_part(WorkerPart(2, [part(0, {"a": 2}, ["b"]), part(1, {"x": 2})])),
        "base": encode_part(WorkerPart(3, [part(0, {"c": 3})])),
    }


@pytest.fixture
def program():
    flow = tr.Topology("shadows")
    words = flow.source(tr.sources.items(["a"]))
    words.key_by(str).count(tasks=2, name="counts").sink(tr.sinks.discard())
    return Program(make_plan(flow), Policy(), Settings())


class Reads:
    """Shadows, what they have read and what they have told."""

    def __init__(self, store, program):
        self.names = []
        self.told = deque()
        self.shadows = Shadows(lambda name: (self.names.append(name), store[name])[1], self.told)
        self.program = program

    def follow(self, epoch, *tasks):
        self.shadows.follow(Follow(epoch, list(tasks)), self.program)
        while self.shadows.read_next():
            pass


def table(shadow):
    return dict(shadow.states["counts"].items())


def test_an_object_is_read_once_for_all_tasks_and_only_when_it_is_new(store, program):
    reads = Reads(store, program)
    reads.follow(1, (1, 0, ["one"]), (1, 1, ["one"]))
    reads.follow(2, (1, 0, ["one", "two"]), (1, 1, ["one", "two"]))
    assert reads.names == ["one", "two"]
    assert list(reads.told) == [Followed(1), Followed(2)]
    assert table(reads.shadows.take(1, 0, ["one", "two"])) == {"a": 2}
    assert table(reads.shadows.take(1, 1, ["one", "two"])) == {"x": 2}


def test_a_shadow_begins_anew_with_a_base(store, program):
    reads = Reads(store, program)
    reads.follow(2, (1, 0, ["one", "two"]))
    reads.follow(3, (1, 0, ["base"]))
    assert table(reads.shadows.take(1, 0, ["base"])) == {"c": 3}


def test_a_shadow_that_is_behind_tells_what_it_has_taken_in(store, program):
    reads = Reads(store, program)
    reads.follow(1, (1, 0, ["one"]))
    shadow = reads.shadows.take(1, 0, ["one", "two"])
    assert shadow.objects == ["one"]
    assert reads.shadows.take(1, 0, ["one", "two"]) is None, "it was given away"


def test_a_shadow_of_other_objects_is_none(store, program):
    reads = Reads(store, program)
    reads.follow(2, (1, 0, ["one", "two"]))
    assert reads.shadows.take(1, 0, ["base"]) is None


def test_what_cannot_be_read_is_left_until_the_next_epoch(store, program, caplog):
    reads = Reads(store, program)
    with pytest.raises(KeyError) as failed:
        reads.follow(1, (1, 0, ["gone"]))
    reads.shadows.give_up(failed.value)
    assert not reads.shadows.behind
    assert "stays behind epoch 1" in caplog.text
    reads.follow(3, (1, 0, ["base"]))
    assert table(reads.shadows.take(1, 0, ["base"])) == {"c": 3}
