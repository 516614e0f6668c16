"""What ``explain()`` says of the way between workers of one node."""

from __future__ import annotations

import platform

import pytest

from tailrace import protocol
from tailrace.config import Policy, Settings
from tailrace.connect import sinks, sources
from tailrace.coordinator.brain import CoordinatorBrain
from tailrace.coordinator.deployment import deal_partitions
from tailrace.coordinator.reporting.explain import explain
from tailrace.program.program import Program
from tailrace.topology.graph import Topology
from tailrace.topology.plan import make_plan
from tailrace.version import __version__


@pytest.mark.parametrize(
    ("transport", "peer", "told"),
    [
        ("auto", {"ring": "/dev/shm/x/ring", "uds": "/dev/shm/x/inbox.sock"}, "within its node: ring, else TCP"),
        ("auto", {"uds": "/tmp/x", "why_no_ring": "no room"}, "within its node: Unix socket (no room), else TCP"),
        ("uds", {"uds": "/tmp/x", "why_no_ring": "as set"}, "within its node: Unix socket (as set), else TCP"),
        ("tcp", {"uds": "/tmp/x", "why_no_ring": "as set"}, "within its node: TCP (as set), else TCP"),
    ],
)
def test_the_way_within_a_node_is_told_with_the_reason(transport, peer, told):
    flow = Topology("one")
    flow.source(sources.rate(10.0, str), tasks=1).sink(sinks.discard())
    program = Program(make_plan(flow), Policy(), Settings(transport=transport))
    brain = CoordinatorBrain("one", program, 1, deal_partitions(program.plan), platform.python_version())
    found = protocol.Peer(slot=0, attempt=0, host="a", tcp=("127.0.0.1", 1), **peer)
    message = protocol.Register(0, 1, 1, "0", found, __version__, platform.python_version())
    brain.on_message(0, 0, message, 1)
    assert told in explain(program, brain, "a test")
    assert "0: registered" in explain(program, brain, "a test")
    brain.stop_now()
    brain.on_gone(0, 2)
    assert "0: ended" in explain(program, brain, "a test")
