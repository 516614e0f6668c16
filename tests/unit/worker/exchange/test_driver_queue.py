"""What waits for the driver: serials, bytes, whom they hold back, and what is too long for a message."""

from __future__ import annotations

from collections import deque

import pytest
from tests.unit.worker.mesh import Mesh

import tailrace as tr
from tailrace.errors import ShareError
from tailrace.transport import codec
from tailrace.worker.exchange.driver_queue import DriverQueue


@pytest.fixture
def tasks():
    """Tasks of one worker by operator: a map, and two of a sink that sends to the driver."""
    flow = tr.Topology("queue")
    flow.source(tr.sources.items([1]), name="source").map(abs, name="map").sink(
        tr.sinks.collect(), tasks=2, name="collect"
    )
    return {(task.name, task.index): task for task in Mesh(flow, [[0], [0], [0, 0]]).brains[0].tasks}


def test_a_task_that_sends_is_held_back_until_the_driver_has_taken_enough(tasks):
    out = deque()
    queue = DriverQueue(out, 1000, 1 << 20)
    sender = tasks["collect", 0]
    for _ in range(3):
        queue.put("collect", 0, [b"x" * 400])
    assert queue.holds_back(sender)
    assert not queue.holds_back(tasks["map", 0])
    assert not queue.holds_back(tasks["collect", 1])
    queue.take(1)
    assert not queue.holds_back(sender)
    assert (queue.sent, queue.taken, queue.newest_of(sender)) == (3, 1, 3)
    queue.take(3)
    assert queue.bytes == 0
    assert [codec.loads(message.values) for message in out] == [[b"x" * 400]] * 3


def test_what_is_too_long_for_one_message_is_refused_by_name():
    queue = DriverQueue(deque(), 1 << 30, 10_000)
    with pytest.raises(ShareError, match="must fit into 8,976 bytes; sink 'out' gave"):
        queue.put("out", 0, {"a": b"x" * 20_000})
    assert queue.sent == 0
