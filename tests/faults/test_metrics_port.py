"""A metrics port that is taken: said at once, with nothing started and nothing left."""

from __future__ import annotations

import socket
import threading

import pytest

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query
from tailrace.errors import ConfigError

HANG_S = 60


@pytest.fixture
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def drawn():
    flow = tr.Topology("metrics")
    flow.source(tr.sources.items([1])).sink(tr.sinks.discard())
    return flow


def test_start_refuses_a_port_that_is_taken_before_it_starts_spark(taken_port, monkeypatch):
    started = []
    monkeypatch.setattr("tailrace.spark.session.embedded", lambda *args, **kwargs: started.append(args))
    with pytest.raises(ConfigError, match=f"port {taken_port}"):
        tr.start(drawn(), workers=1, settings=tr.Settings(prometheus_port=taken_port))
    assert started == []


def test_a_query_whose_port_is_taken_launches_nobody_and_can_be_stopped(taken_port):
    host, errors = testing.ProcessHost(1), []
    query = Query(drawn(), host, tr.Policy(), tr.Settings(prometheus_port=taken_port))

    def start_and_stop():
        try:
            query.start()
        except ConfigError as error:
            errors.append(error)
        query.stop(now=True)

    thread = threading.Thread(target=start_and_stop, daemon=True)
    thread.start()
    thread.join(HANG_S)
    assert not thread.is_alive()
    assert str(taken_port) in errors[0].message
    assert host.processes == []
    assert not query.isActive
    left = {each.name for each in threading.enumerate()}
    assert not left & {"tailrace-coordinator", "tailrace-callbacks", "tailrace-query", "tailrace-metrics"}
