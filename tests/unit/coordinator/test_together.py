"""Queries of one session beside each other: a newcomer sees who is busy, and all can be placed as one graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.queries import until

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.coordinator.deployment import place_tasks
from tailrace.coordinator.migration.multi_query import Registry, Running, busy_by_host, moves_together
from tailrace.coordinator.query import Query
from tailrace.coordinator.steering.graphs import assignment_of, task_graph
from tailrace.placement import Snapshot
from tailrace.placement.accounting import traffic_of
from tailrace.placement.snapshot import measured
from tailrace.program.program import Program
from tailrace.testing import InProcess
from tailrace.testing.processes import ProcessHost
from tailrace.topology.plan import make_plan

HOSTS = {0: "a", 1: "b"}


def program_of(name="chain", placement="turbostream", tasks=4):
    flow = tr.Topology(name)
    stream = flow.source(tr.sources.items([1], partitions=tasks), tasks=tasks, name="source")
    stream = stream.shuffle().map(str, tasks=tasks, name="one").shuffle().map(str, tasks=tasks, name="two")
    stream.shuffle().sink(tr.sinks.discard(), tasks=tasks, name="end")
    return Program(make_plan(flow), Policy(placement=placement), Settings())


def running(name, program, placement, hosts=HOSTS, cost_us=100.0, rate=1000.0):
    ids = [f"{stage}:{task}" for stage, row in enumerate(placement) for task in range(len(row))]
    snapshot = Snapshot(
        cpu_us_per_tuple=dict.fromkeys(ids, cost_us),
        tuples_in_per_s=dict.fromkeys(ids, rate),
        assignment=assignment_of(placement, hosts),
    )
    return Running(name, program, placement, hosts, snapshot)


def test_work_is_added_up_by_node():
    query = running("q", program_of(), [[0, 1]] * 2, cost_us=100.0, rate=1000.0)
    assert busy_by_host([query, query]) == pytest.approx({"a": 0.4, "b": 0.4})
    assert busy_by_host([Running("new", program_of(), [[0]], HOSTS, None)]) == {}


def test_a_newcomer_keeps_off_busy_nodes():
    def on_a(busy):
        placed = place_tasks(program_of(), HOSTS, busy=busy)
        return sum(row.count(0) for row in placed)

    assert on_a({}) == 8
    assert on_a({"a": 1.0}) < 8 < on_a({"b": 1.0})


def test_topologies_that_were_scattered_are_gathered_as_one_graph():
    # Both are dealt out over both nodes; as one graph each fits on a node of its own, and nothing need cross.
    scattered = [[0, 1, 0, 1]] * 4
    queries = [running(name, program_of(name), scattered) for name in ("first", "second")]
    wanted = moves_together(queries, "turbostream")
    crossing = 0.0
    homes = []
    for query in queries:
        placement = [list(row) for row in query.placement]
        for stage, task, slot in wanted[query.id]:
            assert placement[stage][task] != slot
            placement[stage][task] = slot
        graph = measured(task_graph(query.program), query.snapshot)
        crossing += traffic_of(graph.edges, assignment_of(placement, HOSTS)).inter_node_tuples
        homes.append({slot for row in placement for slot in row})
    assert crossing == 0.0
    assert sorted(map(tuple, homes)) == [(0,), (1,)]


def test_a_task_goes_only_where_its_query_has_a_worker_and_to_the_emptiest_one():
    wide = {0: "a", 1: "b", 2: "b"}
    queries = [
        running("wide", program_of(), [[0] * 4] * 4, wide),
        running("narrow", program_of(), [[0] * 4] * 4, {0: "a"}),
    ]
    wanted = moves_together(queries, "stromax")
    assert wanted["narrow"] == []
    assert {slot for _, _, slot in wanted["wide"]} == {1, 2}


def test_queries_know_those_of_their_session_that_run():
    registry = Registry()
    flow = tr.Topology("live")
    flow.source(tr.sources.rate(1000.0, partitions=2), tasks=2).shuffle().map(str, tasks=2).shuffle().sink(
        tr.sinks.discard(), tasks=2
    )
    with InProcess(flow, workers=2, settings=Settings(progress_s=0.1)) as query:
        registry.enter("session", "live", query)
        registry.enter("", "alone", query)
        query.advance(0.5)
        found = registry.running("session")
        assert [each.id for each in found] == ["live"]
        assert set(found[0].snapshot.assignment.node_of.values()) == {"node-0", "node-1"}
        assert sum(found[0].snapshot.tuples_in_per_s.values()) > 0
        assert registry.running("session", besides="live") == registry.running("another") == registry.running("") == []
        query.stop()
        assert registry.running("session") == []  # it has ended, though it has not left
    registry.leave("session", "live")
    assert registry.running("session") == []


def test_sources_that_cannot_be_opened_elsewhere_and_shared_tasks_stay():
    scattered = [[0, 1, 0, 1]] * 4
    program = program_of()
    fixed = replace(program, policy=Policy(inbox="shared"))
    program.plan.stages[0].head.fn.movable = False
    for each, stages in ((program, {1, 2, 3}), (fixed, {3})):
        queries = [running("first", each, scattered), running("second", each, scattered)]
        wanted = moves_together(queries, "turbostream")
        assert {stage for moves in wanted.values() for stage, _, _ in moves} <= stages
        assert any(wanted.values())


def test_three_queries_started_one_after_another_are_placed_as_one_graph():
    """On processes: each is dealt out over both nodes at first; together they cross less, and nothing is lost."""
    flows, outs = [], []
    for name in ("first", "second", "third"):
        flow, out = tr.Topology(name), tr.sinks.collect()
        source = flow.source(tr.sources.rate(400.0, partitions=2), tasks=2, name="source")
        source.shuffle().map(str, tasks=2, name="text").shuffle().sink(out, tasks=2, name="end")
        flows.append(flow)
        outs.append(out)
    queries = []
    for flow in flows:
        host = ProcessHost(2, hosts=["127.0.1.1", "127.0.1.2"], link_delay_ms=0.5, session="together")
        queries.append(Query(flow, host, Policy(), Settings(progress_s=0.2)).start())
    until(lambda: all(query.lastProgress for query in queries), "progress")
    moved = queries[0].rebalance_session("turbostream")
    assert moved
    assert all(plan["state"] == "done" for plans in moved.values() for plan in plans)
    placed = [query._brain.placement for query in queries]
    assert any(len({slot for row in each for slot in row}) == 1 for each in placed)  # one has a node to itself
    for query, out in zip(queries, outs, strict=True):
        query.stop()
        for partition in range(2):
            numbers = sorted(number for number in map(int, out.values) if number % 2 == partition)
            assert numbers == list(range(partition, partition + 2 * len(numbers), 2))
    assert queries[0].rebalance_session() == {}  # nobody is left
