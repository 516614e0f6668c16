"""What reports become for placement: costs, rates, bytes, speeds; and a plan as a task graph and back."""

from __future__ import annotations

import pytest

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.coordinator.deployment import place_tasks
from tailrace.coordinator.steering.graphs import assignment_of, nodes_of, placement_of, task_graph
from tailrace.coordinator.steering.measurements import SPAN_PERIODS, Measured, node_speeds
from tailrace.program.program import Program
from tailrace.reports import EdgeReport, LinkReport, TaskReport, WorkerReport
from tailrace.topology.plan import make_plan

HOSTS = {0: "a", 1: "b", 2: "a", 3: "b"}
PLACEMENT = [[0, 1], [0, 1, 2, 3], [2, 3]]


def program_of(**policy):
    flow = tr.Topology("measured")
    source = flow.source(tr.sources.items([1], partitions=2), tasks=2, name="source")
    source.shuffle().map(str, tasks=4, name="text").key_by(len).count(tasks=2, name="count").sink(tr.sinks.discard())
    return Program(make_plan(flow), Policy(**policy), Settings())


def task_row(stage, task, tuples, us_each, mode="inline"):
    spent_ns = int(tuples * us_each * 1000)
    return TaskReport(stage, task, mode, tuples_in=tuples, cpu_ns=spent_ns, busy_ns=3 * spent_ns)


def report(tasks=(), edges=(), links=()):
    return WorkerReport(
        1, tuple(tasks), tuple(EdgeReport(*row) for row in edges), tuple(LinkReport(*row) for row in links)
    )


def test_the_structure_gives_rates_by_grouping_and_slots_come_back():
    graph = task_graph(program_of())
    loads = {vertex.id: vertex.cpu for vertex in graph.vertices}
    assert loads == {"0:0": 1, "0:1": 1, "1:0": 0.5, "1:1": 0.5, "1:2": 0.5, "1:3": 0.5, "2:0": 1.0, "2:1": 1.0}
    assert [stream.grouping for stream in graph.streams] == ["shuffle", "fields"]
    placed = assignment_of(PLACEMENT, HOSTS)
    assert placed.place_of("1:2") == ("a", 1)
    assert placement_of(program_of().plan, placed, HOSTS) == PLACEMENT
    assert [(node.name, node.workers) for node in nodes_of(HOSTS)] == [("a", 2), ("b", 2)]


@pytest.mark.parametrize(
    ("policy", "grouping"),
    [({"routing": "latency"}, "balanced"), ({"replay": "adaptive"}, "detour"), ({}, "shuffle")],
)
def test_streams_are_predicted_as_they_are_carried_out(policy, grouping):
    assert task_graph(program_of(**policy)).streams[0].grouping == grouping


def test_a_snapshot_has_costs_rates_and_bytes_of_the_last_periods():
    measured = Measured(program_of())
    assert measured.snapshot(PLACEMENT, HOSTS) is None
    slot_0 = report(
        [task_row(0, 0, 1000, 2.0), task_row(1, 0, 500, 10.0)],
        [[0, 0, 0, 500, 0], [0, 0, 1, 500, 50_000], [1, -1, -1, 200, 8000]],
        [[0, 0, 500, 0], [0, 2, 500, 50_000], [1, 1, 200, 8000]],
    )
    measured.take(0, slot_0)
    measured.take(1, report([task_row(1, 1, 500, 5.0, mode="thread")]))
    measured.close_period(2.0, PLACEMENT, HOSTS)
    found = measured.snapshot(PLACEMENT, HOSTS, held=["1:0"])
    assert found.cpu_us_per_tuple == pytest.approx({"0:0": 2.0, "1:0": 10.0, "1:1": 15.0})  # what blocks, by the clock
    assert found.tuples_in_per_s == {"0:0": 500.0, "1:0": 250.0, "1:1": 250.0}
    # Handed over inside a worker, a tuple has no bytes; it counts with what others of its edge have.
    assert found.edges == {("0:0", "1:0"): (250.0, 25_000.0), ("0:0", "1:1"): (250.0, 25_000.0)}
    assert found.remainder == {("1", "2"): (100.0, 4000.0)}
    assert found.held == {"1:0"}
    assert set(place_tasks(program_of(placement="turbostream"), HOSTS, found)[1]) <= set(HOSTS)


def test_the_span_moves_on_and_counters_that_begin_anew_count():
    measured = Measured(program_of())
    for second in range(1, 3 * SPAN_PERIODS + 1):
        rate = 100 if second <= SPAN_PERIODS else 300
        tuples = 100 * min(second, SPAN_PERIODS) + 300 * max(0, second - SPAN_PERIODS)
        measured.take(0, report([task_row(0, 0, tuples, 1.0)]))
        measured.close_period(1.0, PLACEMENT, HOSTS)
        assert measured.snapshot(PLACEMENT, HOSTS).tuples_in_per_s["0:0"] <= rate
    assert measured.snapshot(PLACEMENT, HOSTS).tuples_in_per_s == {"0:0": 300.0}
    measured.forget(0)
    measured.take(0, report([task_row(0, 0, 60, 1.0)]))
    assert measured.snapshot(PLACEMENT, HOSTS).tuples_in_per_s["0:0"] < 60


def test_traffic_stands_beside_what_was_predicted_and_outlives_a_lost_worker():
    measured = Measured(program_of())
    measured.take(0, report(links=[[0, 0, 250, 0], [0, 1, 250, 2500], [0, 2, 500, 5000]]))
    row = measured.close_period(1.0, PLACEMENT, HOSTS)[0]
    assert row["edge"] == "source -> text"
    assert row["tuples"] == row["predicted"]["tuples"] == {"inProcess": 250, "intraNode": 250, "interNode": 500}
    assert row["bytes"] == row["predicted"]["bytes"] == {"intraNode": 2500, "interNode": 5000}
    measured.forget(0)
    measured.take(0, report(links=[[0, 2, 100, 1000]]))
    row = measured.close_period(2.0, PLACEMENT, HOSTS)[0]
    assert row["tuples"]["interNode"] == 600
    assert row["perSecond"] == {"inProcess": 0.0, "intraNode": 0.0, "interNode": 50.0}
    assert row["bytesPerSecond"]["interNode"] == 500.0


def test_a_node_on_which_everything_costs_more_is_slower():
    placement = [[0, 1, 2], [0, 1, 2]]
    hosts = {0: "a", 1: "b", 2: "c"}
    costs = {(0, 0): 10.0, (0, 1): 40.0, (0, 2): 10.0, (1, 0): 2.0, (1, 1): 8.0, (1, 2): 2.0}
    assert node_speeds(costs, placement, hosts) == {"b": 0.25}
    assert node_speeds({(0, 0): 10.0}, placement, hosts) == {}
