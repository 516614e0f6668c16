"""Workers as plain processes that are killed, stopped and cut off."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import pytest
from tests.chaos.hosts import OneByProxy, TwoOfASlot
from tests.queries import PATIENT, alive, all_open, completed, ended, ending, pids, running_counts, two_keys, until

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query
from tailrace.program.errors import OperatorError

pytestmark = pytest.mark.chaos
QUICK = {"progress_s": 0.1, **PATIENT}


def ids(per_s=3000):
    """A stateless topology that carries ids, on four workers: source, two stages, sink."""
    flow, out = tr.Topology("ids"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(per_s), name="numbers")
    numbers.shuffle().map(lambda v: v, name="first").shuffle().map(lambda v: v, name="second").shuffle().sink(out)
    return flow, out


def slot_of(query, stage):
    return query._brain.placement[stage][0]


def refused(query):
    """Messages of replaced workers that the living ones have refused."""
    return sum(member.report.process.refused_messages for member in query._brain.members.values())


def assert_all_arrived(query, out):
    """After draining, everything up to the sources' mark has arrived."""
    (read_up_to,) = query._brain._marks.values()
    assert set(out.values) == set(range(read_up_to))
    assert read_up_to > 0


def test_counts_are_exact_when_a_worker_without_state_is_killed():
    flow, out = tr.Topology("exact"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(3000, count=9000))
    words = numbers.shuffle().flat_map(two_keys, name="stateless")
    words.key_by(lambda w: w).count().shuffle().sink(out)
    with ending(Query(flow, testing.ProcessHost(4), tr.Policy(), tr.Settings(**QUICK)).start()) as query:
        for kill, after in enumerate((500, 3000), start=1):
            until(lambda after=after: completed(query) > after, "progress", query)
            os.kill(pids(query)[slot_of(query, 1)], signal.SIGKILL)
            until(lambda kill=kill: query._brain.restarts == kill and all_open(query), "a successor", query)
        ended(query)
    assert sorted(out.values) == running_counts(9000)
    assert query.lastProgress["replays"] > 0


def _write_at_once(path, pid):
    """Nobody may see the file before its content is there."""
    draft = path.with_suffix(".draft")
    draft.write_text(str(pid))
    draft.rename(path)


def test_none_of_a_stopped_workers_frames_is_accepted_when_it_goes_on(tmp_path):
    """The zombie wakes inside user code, with a full inbox, and sends what it gives before it notices its lease ended.

    Its tuples carry its pid. The stage behind it has no guard that would drop them, and notes any that get in.
    """
    held, inside, woken, accepted = (tmp_path / name for name in ("held", "inside", "woken", "accepted"))

    def first(value):
        pid = os.getpid()
        if held.exists() and held.read_text() == str(pid):
            inside.touch()
            while not woken.exists():
                time.sleep(0.01)
        return pid, value

    def note(pair):
        pid, value = pair
        if woken.exists() and woken.read_text() == str(pid):
            accepted.touch()
        return value

    flow, out = tr.Topology("zombie"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(3000), name="numbers")
    numbers.shuffle().map(first, name="first").shuffle().map(note, name="second").shuffle().sink(out)
    # The loop waits for the held function, and what a round gives goes out in that round.
    settings = tr.Settings(lease_s=1.0, handoff_ms=600_000, flush_us=1, **QUICK)
    host = TwoOfASlot(4)
    with ending(Query(flow, host, tr.Policy(), settings).start()) as query:
        slot = slot_of(query, 1)
        until(lambda: completed(query) > 500, "progress", query)
        _write_at_once(held, pids(query)[slot])
        until(inside.exists, "the worker in its function", query)
        os.kill(pids(query)[slot], signal.SIGSTOP)
        full = query.lastProgress["stages"][0]["read"] + 4000
        until(lambda: query.lastProgress["stages"][0]["read"] > full, "an inbox that fills up", query)
        zombie = host.start_another(slot)
        until(lambda: query._brain.restarts == 1 and all_open(query), "a successor", query)
        before = refused(query)
        _write_at_once(woken, zombie.pid)
        os.kill(zombie.pid, signal.SIGCONT)
        until(lambda: zombie.exitcode is not None, "the zombie's end", query)
        until(lambda: refused(query) > before, "frames of the zombie", query)
        query.stop()
    assert zombie.exitcode != 0
    assert query._brain.members[slot].attempt == 2
    assert not accepted.exists()
    assert_all_arrived(query, out)


def test_a_worker_that_is_cut_off_from_the_coordinator_is_replaced_and_heard_no_more():
    """It hosts the sink, so all it reports to the driver while it is cut off is void and must come again."""
    flow, out = ids()
    proxies = []

    def open_proxy(host, port):
        proxies.append(testing.FaultyProxy(host, port).__enter__())
        return proxies[0]

    try:
        host = OneByProxy(4, 3, open_proxy)
        with ending(Query(flow, host, tr.Policy(), tr.Settings(lease_s=1.0, **QUICK)).start()) as query:
            assert slot_of(query, 3) == 3
            until(lambda: completed(query) > 500, "progress", query)
            first = host.processes[3]
            proxies[0].partition()
            until(lambda: query._brain.restarts == 1 and all_open(query), "a successor", query)
            assert first.exitcode not in {None, 0}
            proxies[0].heal()
            goal = completed(query) + 1000
            until(lambda: completed(query) > goal, "progress after the partition", query)
            query.stop()
    finally:
        for proxy in proxies:
            proxy.__exit__(None, None, None)
    assert_all_arrived(query, out)


def test_a_query_that_fails_leaves_nothing_behind():
    def soon(value):
        if value == 1000:
            raise ValueError("enough")
        return value

    flow = tr.Topology("fails")
    flow.source(tr.sources.rate(3000)).shuffle().map(soon, tasks=2).shuffle().sink(tr.sinks.discard(), tasks=2)
    host = testing.ProcessHost(3)
    query = Query(flow, host, tr.Policy(), tr.Settings(**QUICK)).start()
    workers = pids(query).values()
    port = query._loop.port
    with pytest.raises(OperatorError, match="enough"):
        ended(query)
    assert not any(map(alive, workers))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("tailrace")], "the end of all threads")
    # That no file stays in /dev/shm is looked at after every test.
