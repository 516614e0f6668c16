"""Links with a delay: another host name is another node, a little away, and nothing is lost on the way."""

from __future__ import annotations

import secrets
import time
from collections import deque

import pytest

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.testing.links import DelayedConnections
from tailrace.testing.processes import ProcessHost


def test_workers_of_two_hosts_talk_by_delayed_tcp_and_nothing_is_lost():
    flow = tr.Topology("apart")
    out = tr.sinks.collect()
    source = flow.source(tr.sources.items(range(500), partitions=2), tasks=2, name="source")
    source.shuffle().map(lambda value: value + 1, tasks=2, name="add").shuffle().sink(out, tasks=2, name="end")
    host = ProcessHost(2, hosts=["127.0.1.1", "127.0.1.2"], link_delay_ms=20.0)
    query = Query(flow, host, Policy(), Settings(progress_s=0.2)).start()
    query.awaitTermination(60)
    assert sorted(out.values) == list(range(1, 501))
    row = query.lastProgress["traffic"][0]
    assert row["tuples"] == {"inProcess": 250, "intraNode": 0, "interNode": 250}
    # A root that crosses once comes back by an ack: both ways are 20 ms longer than they were.
    assert query.latency["max_ms"] >= 40


class NoSleep:
    """Notes for how long it was to sleep."""

    def __init__(self):
        self.asked_us = []

    def wait(self, timeout_us, *, patient):
        del patient
        self.asked_us.append(timeout_us)
        return []


@pytest.fixture
def connections():
    connections = DelayedConnections(0, secrets.token_bytes(32), "127.0.1.1", Settings(transport="tcp"), delay_ms=0.5)
    yield connections
    connections.close()


def test_what_becomes_due_between_poll_and_wait_is_not_slept_over(connections, monkeypatch):
    sleeper = NoSleep()
    monkeypatch.setattr(connections, "_waiter", sleeper)
    connections._held[1] = deque([(time.monotonic() - 1e-6, b"due by now")])
    connections.wait(100_000)
    connections._held[1][0] = time.monotonic() + 60, b"not due for long"
    connections.wait(100_000)
    assert sleeper.asked_us == [0, 100_000]


def test_what_finds_no_connection_is_tried_again_soon(connections, monkeypatch):
    sleeper = NoSleep()
    monkeypatch.setattr(connections, "_waiter", sleeper)
    connections._held[1] = deque([(time.monotonic() - 1, b"to nobody")])
    connections.poll()
    connections.wait(100_000)
    assert 0 < sleeper.asked_us[0] < 100_000
    assert len(connections._held[1]) == 1
