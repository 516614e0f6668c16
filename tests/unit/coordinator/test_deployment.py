"""What goes where: partitions are numbered and dealt out, every task gets a slot that exists."""

from __future__ import annotations

import pytest

import tailrace as tr
from tailrace.batch import PARTITIONS_MAX
from tailrace.config import KNOWN_POLICIES, Policy, Settings
from tailrace.connect.items import Items
from tailrace.coordinator.deployment import deal_partitions, place_tasks
from tailrace.coordinator.errors import StartError
from tailrace.program.program import Program
from tailrace.topology.plan import make_plan


def plan_of(partitions=5):
    flow = tr.Topology("deployed")
    one = flow.source(tr.sources.items([1], partitions=partitions), tasks=2, name="one")
    two = flow.source(tr.sources.items([1], partitions=2), tasks=3, name="two")
    one.union(two).shuffle().map(str, tasks=4).key_by(len).count(tasks=3).shuffle().sink(tr.sinks.discard(), tasks=2)
    return make_plan(flow)


def test_partitions_are_numbered_from_one_and_dealt_in_turn():
    plan = plan_of()
    stage = {each.head.name: each.id for each in plan.stages}
    assert deal_partitions(plan) == [
        *([number + 1, stage["one"], number % 2, str(number)] for number in range(5)),
        [6, stage["two"], 0, "0"],
        [7, stage["two"], 1, "1"],
    ]


def test_too_many_partitions_are_a_named_error(monkeypatch):
    monkeypatch.setattr(Items, "partitions", lambda self: ["p"] * (PARTITIONS_MAX // 2))
    with pytest.raises(StartError, match=str(PARTITIONS_MAX - 1)):
        deal_partitions(plan_of())


@pytest.mark.parametrize("policy", KNOWN_POLICIES["placement"])
@pytest.mark.parametrize("hosts", [{0: "a"}, {0: "a", 1: "a", 2: "a"}, {0: "a", 1: "b", 2: "a", 3: "c"}])
def test_every_task_gets_a_slot_that_exists(policy, hosts):
    plan = plan_of()
    placed = place_tasks(Program(plan, Policy(placement=policy), Settings()), hosts)
    assert [len(row) for row in placed] == [stage.tasks for stage in plan.stages]
    assert {slot for row in placed for slot in row} <= set(hosts)


def test_round_robin_uses_every_slot_evenly():
    placed = place_tasks(Program(plan_of(), Policy(), Settings()), {0: "a", 1: "b", 2: "a"})
    counts = [sum(row.count(slot) for row in placed) for slot in range(3)]
    assert max(counts) - min(counts) <= 1
