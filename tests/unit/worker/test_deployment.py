"""The deployed half of a worker: built whole from an order, and replaced by another one in the same worker."""

from __future__ import annotations

import pytest
from tests.unit.worker.mesh import Mesh
from tests.unit.worker.rig import Kept, context

import tailrace as tr
from tailrace import protocol
from tailrace.clock import FakeClock
from tailrace.program.errors import ProtocolError
from tailrace.testing import TestSource
from tailrace.worker.brain import WorkerBrain
from tailrace.worker.execution.executors import run_piece


def counts(name):
    flow = tr.Topology("again")
    keyed = flow.source(TestSource(range(40)), name="source").key_by(lambda value: value % 4)
    keyed.count(tasks=2, name="count").shuffle().sink(Kept(name), tasks=1, name="kept")
    return flow


def deploy_again(mesh):
    """What a recovery does: the same order again to workers that live."""
    orders = {}
    for slot in mesh.brains:
        peers = [mesh.peer(each) for each in mesh.slots]
        partitions = [[1, 0, 0, mesh.brains[0].deployment.site.partitions[0][3], 0]]
        orders[slot] = protocol.Deploy("query", mesh.program, mesh.placement, peers, partitions, {})
    mesh.mail.clear()
    for slot, brain in mesh.brains.items():
        brain.on_control(orders[slot])
        assert isinstance(brain.control_out.pop(), protocol.Deployed)
    for brain in mesh.brains.values():
        brain.on_control(protocol.Go())


def test_a_second_deployment_drops_the_first_and_begins_from_nothing():
    mesh = Mesh(counts("again"), [[0], [0, 1], [1]])
    for slot in (0, 1):
        mesh.turn(slot)
    before = {slot: brain.deployment for slot, brain in mesh.brains.items()}
    tasks = {slot: list(brain.tasks) for slot, brain in mesh.brains.items()}
    Kept.written["again"].clear()
    deploy_again(mesh)
    for slot, brain in mesh.brains.items():
        assert brain.deployment is not before[slot]
        assert not set(brain.tasks) & set(tasks[slot])
        assert brain.moved_away() == tasks[slot]
        assert brain.moved_away() == []
    mesh.settle()
    assert sorted(Kept.written["again"]) == sorted((key, number) for key in range(4) for number in range(1, 11))


def test_a_piece_of_work_of_a_deployment_that_was_dropped_comes_back_to_nobody():
    mesh = Mesh(counts("late piece"), [[0], [0, 1], [1]])
    piece = mesh.brains[0].next_work()
    deploy_again(mesh)
    run_piece(piece)
    mesh.brains[0].finish(piece)
    mesh.settle()
    assert sorted(Kept.written["late piece"]) == sorted((key, number) for key in range(4) for number in range(1, 11))


def test_an_order_before_the_first_deployment_is_refused_by_name():
    brain = WorkerBrain(0, 1, FakeClock(1), lambda slot, message: True, context)
    with pytest.raises(ProtocolError, match="before it had deployed it"):
        brain.on_control(protocol.Resume(1))
