"""Data connections between workers that break again and again: what was under way is sent again, and counted once."""

from __future__ import annotations

import contextlib

import pytest
from tests.queries import PATIENT, completed, ended, ending, running_counts, two_keys, until

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query
from tailrace.testing.chaos import delayed_links

pytestmark = pytest.mark.chaos
COUNT = 9000
BREAKS = 6
#: So slow that something is under way on every link at any time.
DELAY_MS = 20


@contextlib.contextmanager
def behind_proxies():
    """A stateless stage in front of a keyed one on four workers that reach each other through proxies only."""
    flow, out = tr.Topology("broken links"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(3000, count=COUNT))
    words = numbers.shuffle().flat_map(two_keys, name="stateless", tasks=2)
    words.key_by(lambda word: word).count(tasks=2).shuffle().sink(out, tasks=2)
    settings = tr.Settings(transport="tcp", progress_s=0.1, **PATIENT)
    query = Query(flow, testing.ProcessHost(4), tr.Policy(chaining="off", replay="fixed:1s"), settings)
    with delayed_links(query._brain, range(4), DELAY_MS) as proxies, ending(query.start()):
        yield query, proxies, out


def progress_up_to(query, number):
    until(lambda: completed(query) > COUNT * number // (2 * BREAKS), "progress", query)


def all_connected(query, proxies):
    until(lambda: all(proxy.connections for proxy in proxies), "a connection to every worker", query)


def assert_exact(query, out):
    assert sorted(out.values) == running_counts(COUNT)
    assert query.lastProgress["replays"] > 0, "nothing was under way when a connection broke"
    assert query.lastProgress["workers"]["restarts"] == 0


def test_counts_are_exact_while_data_connections_are_cut():
    with behind_proxies() as (query, proxies, out):
        assert len(proxies) == 4
        for number in range(BREAKS):
            progress_up_to(query, number)
            all_connected(query, proxies)
            for proxy in proxies if number % 2 else proxies[number // 2 :: 2]:
                proxy.cut()
        ended(query)
    assert_exact(query, out)


def test_counts_are_exact_when_what_a_partition_holds_is_lost_with_its_connection():
    with behind_proxies() as (query, proxies, out):
        for number in range(BREAKS):
            progress_up_to(query, number)
            all_connected(query, proxies)
            proxy = proxies[number % len(proxies)]
            proxy.partition()
            sent = query.lastProgress["sequence"]
            until(lambda sent=sent: query.lastProgress["sequence"] > sent + 1, "a report", query)
            proxy.cut()
            proxy.heal()
        ended(query)
    assert_exact(query, out)
