"""One SIGKILL of a worker with state: the query says so by name, or, if that was accepted, warns and counts."""

from __future__ import annotations

import logging
import os
import signal

import pytest
from tests.queries import all_open, completed, ended, ending, pids, until

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.errors import StateLostError
from tailrace.coordinator.query import Query


def counting(**settings):
    """A keyed count on two workers that has begun to count, and the slot of the worker that has the counts."""
    flow = tr.Topology("counting")
    numbers = flow.source(tr.sources.rate(2000), name="numbers").key_by(lambda value: value % 100)
    numbers.count(tasks=1, name="counts").sink(tr.sinks.discard())
    settings = tr.Settings(progress_s=0.1, register_timeout_s=200.0, **settings)
    query = Query(flow, testing.ProcessHost(2), tr.Policy(), settings).start()
    until(lambda: completed(query) > 100, "progress", query)
    return query, query._brain.placement[1][0]


def test_state_lost_with_a_worker_fails_the_query_by_name():
    query, slot = counting()
    with ending(query):
        pid = pids(query)[slot]
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(StateLostError, match=rf"Worker {slot} .*pid {pid}\) was lost.* 'counts' \(1 task\)"):
            ended(query)
    assert not query.isActive


def test_a_loss_that_was_accepted_is_told_and_the_query_goes_on(caplog):
    query, slot = counting(lost_state="accept")
    with ending(query), caplog.at_level(logging.WARNING, logger="tailrace"):
        os.kill(pids(query)[slot], signal.SIGKILL)
        until(lambda: query.lastProgress["lostState"] == 1 and all_open(query), "a successor", query)
        before = completed(query)
        until(lambda: completed(query) > before, "progress", query)
        query.stop()
    assert "'counts' (1 task)" in caplog.text
