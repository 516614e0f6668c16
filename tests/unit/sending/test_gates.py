"""The gates: known answers, what all of them keep to, and Hone's competitive bound against brute force."""

from __future__ import annotations

import heapq
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import examples

from tailrace.errors import ConfigError
from tailrace.sending.gate import Cursor, Entry, GateSettings, TurnsOfOperators
from tailrace.sending.registry import GATES, SIMULATED_GATES, gate_by_name
from tailrace.simulate.slots import run_slots

NOW = 1_000_000_000
SETTINGS = GateSettings(tau_ns=1_000_000, quantum=3, max_wait_ns=50_000_000)


def entry(outbox, tuples, *, since=NOW - 1000, refreshed=NOW, operator=0, alone=False):
    return Entry(outbox, operator, 0, tuples, tuples * 10, since, refreshed, alone)


def decide(name, table, cursor=Cursor()):  # noqa: B008 - immutable
    return gate_by_name(name, SETTINGS).decide(table, cursor, NOW)


TABLES = st.lists(
    st.builds(
        Entry,
        outbox=st.integers(0, 0),
        operator=st.integers(0, 2),
        destination=st.just(0),
        tuples=st.integers(0, 5),
        bytes=st.just(0),
        since_ns=st.integers(NOW - 100_000_000, NOW),
        refreshed_ns=st.sampled_from([NOW, NOW - 2_000_000, NOW - 2_000_001]),
        alone=st.booleans(),
        first=st.integers(1, 5),
    ),
    max_size=8,
).map(lambda table: [each._replace(outbox=number) for number, each in enumerate(table)])


@given(TABLES, st.sampled_from(sorted(GATES)), st.builds(Cursor, st.integers(-1, 2), st.integers(-1, 8)))
def test_a_grant_is_for_a_fresh_outbox_with_something_to_send_and_there_is_one_whenever_there_is_one(
    table, name, cursor
):
    fresh = {each.outbox for each in table if each.tuples and each.refreshed_ns >= NOW - 2 * SETTINGS.tau_ns}
    grant = decide(name, table, cursor)
    assert (grant is None) == (not fresh)
    if grant is not None:
        assert grant.outbox in fresh
        first = table[grant.outbox].first
        assert grant.tuples_max == (first if name == "fifo" else SETTINGS.quantum)
        assert grant.until_ns == NOW + SETTINGS.tau_ns
        assert grant.cursor.outbox == grant.outbox


def test_fifo_takes_the_oldest_whichever_operator_it_is_of():
    table = [entry(0, 9, since=NOW - 5), entry(1, 1, since=NOW - 7, operator=1)]
    assert decide("fifo", table, Cursor(1, 1)).outbox == 1


def test_round_robin_passes_over_the_empty_and_comes_round():
    table = [entry(0, 1), entry(1, 0), entry(2, 5)]
    assert [decide("round_robin", table, Cursor(0, last)).outbox for last in (-1, 0, 1, 2)] == [0, 2, 2, 0]


def test_the_idling_round_robin_wastes_its_turn():
    table = [entry(0, 1), entry(1, 0)]
    grant = decide("idling_round_robin", table, Cursor(0, 0))
    assert (grant.outbox, grant.tuples_max) == (1, 0)
    assert decide("idling_round_robin", table, grant.cursor).tuples_max == SETTINGS.quantum


def test_lbf_takes_the_longest_and_among_equals_the_oldest():
    assert decide("lbf", [entry(0, 2), entry(1, 7), entry(2, 3)]).outbox == 1
    assert decide("lbf", [entry(0, 7, since=NOW - 5), entry(1, 7, since=NOW - 9)]).outbox == 1


def test_lbf_lets_no_outbox_wait_longer_than_is_set():
    table = [entry(0, 100), entry(1, 1, since=NOW - SETTINGS.max_wait_ns - 1)]
    assert decide("lbf", table).outbox == 1
    assert decide("lbf", [table[0], entry(1, 1, since=NOW - SETTINGS.max_wait_ns)]).outbox == 0


def test_what_a_dead_sender_left_on_the_table_does_not_count():
    assert decide("lbf", [entry(0, 100, refreshed=NOW - 2_000_001), entry(1, 1)]).outbox == 1


def test_operators_take_turns_whatever_their_backlogs():
    table = [entry(0, 100), entry(1, 90), entry(2, 1, operator=1)]
    cursor, served = Cursor(), []
    for _ in range(4):
        grant = decide("lbf", table, cursor)
        cursor = grant.cursor
        served.append(grant.outbox)
    assert served == [0, 2, 0, 2]


def test_the_outboxes_of_a_single_task_go_in_their_order():
    table = [entry(0, 100, since=NOW - 5, alone=True), entry(1, 1, since=NOW - 9, alone=True)]
    assert decide("lbf", table).outbox == 1


def test_an_unknown_gate_names_the_nearest():
    with pytest.raises(ConfigError, match="lbf") as caught:
        gate_by_name("lbff")
    assert "Did you mean 'lbf'?" in caught.value.hint
    assert set(GATES) < set(SIMULATED_GATES)


# -- the competitive bound -------------------------------------------------------------------------------------------


def by_brute_force(trace):
    """Least possible largest backlog: over all choices, by keeping every state that can be reached."""
    count = len(trace[0])
    states = {(0,) * count: 0}
    for coming in trace:
        following = {}
        for state, most in states.items():
            full = [held + new for held, new in zip(state, coming, strict=True)]
            for box in range(count):
                left = tuple(max(0, held - (at == box)) for at, held in enumerate(full))
                following[left] = min(following.get(left, 10**9), max(most, *left))
        states = following
    return min(states.values())


def optimum(trace):
    """The same for many queues: the least backlog with which every tuple can go in time, the most urgent first.

    With at most b waiting, a queue's k-th tuple has to go by the slot in which its (k + b)-th comes.
    """
    times = [[slot for slot, coming in enumerate(trace) for _ in range(coming[box])] for box in range(len(trace[0]))]
    return next(most for most in itertools.count() if _in_time(times, most, len(trace)))


def _in_time(times, most, slots):
    jobs = sorted(
        (come, queue[at + most] if at + most < len(queue) else slots)
        for queue in times
        for at, come in enumerate(queue)
    )
    urgent, at = [], 0
    for slot in range(slots):
        while at < len(jobs) and jobs[at][0] == slot:
            heapq.heappush(urgent, jobs[at][1])
            at += 1
        if urgent:
            heapq.heappop(urgent)
        if urgent and urgent[0] <= slot:
            return False
    return True


def bound(trace):
    return 3 + math.ceil(math.log2(len(trace[0])))


def traces(queues, slots, most=3):
    return st.integers(*queues).flatmap(
        lambda count: st.lists(
            st.lists(st.integers(0, most), min_size=count, max_size=count), min_size=1, max_size=slots
        )
    )  # fmt: skip


SMALL = traces((2, 4), 7)
#: Any order is within N of the optimum, so the bound says something from 7 queues on.
WIDE = traces((7, 16), 24, most=1)


@examples(300)
@given(SMALL)
def test_the_optimum_is_what_brute_force_finds(trace):
    assert optimum(trace) == by_brute_force(trace)


@examples(1000)
@given(SMALL)
def test_lbf_is_within_the_bound_of_brute_force_on_small_traces(trace):
    assert run_slots("lbf", trace).max_backlog <= bound(trace) * by_brute_force(trace)


@examples(1000)
@given(WIDE)
def test_lbf_is_within_the_bound_where_not_every_order_is(trace):
    assert run_slots("lbf", trace).max_backlog <= bound(trace) * optimum(trace)


def against_the_shortest_first(queues):
    """All queues have one tuple; then one of them gets another in every slot."""
    return [[1] * queues, *([[1] + [0] * (queues - 1)] * (queues - 1))]


def test_the_bound_can_be_broken(monkeypatch):
    class ShortestFirst(TurnsOfOperators):
        def pick(self, entries, cursor):
            del cursor
            return min(entries, key=lambda entry: (entry.tuples, -entry.outbox))

    monkeypatch.setitem(SIMULATED_GATES, "shortest_first", ShortestFirst)
    trace = against_the_shortest_first(16)
    assert run_slots("shortest_first", trace).max_backlog > bound(trace) * optimum(trace)
    assert run_slots("lbf", trace).max_backlog <= bound(trace) * optimum(trace)


@examples(200)
@given(SMALL, st.sampled_from(["lbf", "fifo", "round_robin"]))
def test_no_gate_beats_the_optimum_or_loses_a_tuple(trace, gate):
    found = run_slots(gate, trace)
    assert found.max_backlog >= optimum(trace)
    assert found.sent + found.left == sum(map(sum, trace))


@pytest.mark.soak
@examples(20_000)
@given(st.one_of(SMALL, WIDE))
def test_lbf_is_within_the_bound_on_many_thousands_of_traces(trace):
    assert run_slots("lbf", trace).max_backlog <= bound(trace) * optimum(trace)
