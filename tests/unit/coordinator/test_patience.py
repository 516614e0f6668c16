"""How long the coordinator waits for a worker that says nothing."""

from __future__ import annotations

import platform

import tailrace as tr
from tailrace import protocol
from tailrace.coordinator.brain import CoordinatorBrain
from tailrace.coordinator.deployment import deal_partitions
from tailrace.program.program import Program
from tailrace.topology.plan import make_plan
from tailrace.version import __version__

S = 1_000_000_000
LEASE_S = 10.0


def brain_of_two():
    flow = tr.Topology("two")
    flow.source(tr.sources.items([1])).sink(tr.sinks.discard())
    plan = make_plan(flow)
    settings = tr.Settings(lease_s=LEASE_S, register_timeout_s=90.0)
    return CoordinatorBrain(
        "q", Program(plan, tr.Policy(), settings), 2, deal_partitions(plan), platform.python_version()
    )


def register(brain, slot, now_ns, launch=1):
    peer = protocol.Peer(slot, 0, "node", ("127.0.0.1", 1))
    message = protocol.Register(slot, launch, 1, "0", peer, __version__, platform.python_version())
    brain.on_message(10 * launch + slot, slot, message, now_ns)


def told(brain, kind):
    found = [connection for connection, message in brain.out if isinstance(message, kind)]
    brain.out.clear()
    return found


def test_a_worker_may_wait_long_for_the_others_to_register():
    brain = brain_of_two()
    register(brain, 0, 0)
    for second in range(60):
        brain.tick(second * S)
    register(brain, 1, 60 * S)
    assert told(brain, protocol.Deploy) == [10, 11]


def test_a_worker_may_wait_long_for_the_others_to_open():
    brain = brain_of_two()
    register(brain, 0, 0)
    register(brain, 1, 0)
    brain.on_message(10, 0, protocol.Deployed(), 1 * S)
    for second in range(60):
        brain.tick(second * S)
    told(brain, protocol.Deploy)
    brain.on_message(11, 1, protocol.Deployed(), 60 * S)
    brain.tick(61 * S)
    assert told(brain, protocol.Go) == [10, 11]
    assert brain.state == "running"


def test_a_running_worker_that_is_silent_for_two_leases_is_lost():
    brain = brain_of_two()
    for slot in (0, 1):
        register(brain, slot, 0)
    for slot in (0, 1):
        brain.on_message(10 + slot, slot, protocol.Deployed(), 0)
    brain.tick(int(2 * LEASE_S * S))
    assert all(member.alive for member in brain.members.values())
    brain.tick(int(2 * LEASE_S * S) + S)
    assert not any(member.alive for member in brain.members.values())
