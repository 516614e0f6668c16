"""Which worker of a node holds the queue of shared tasks."""

from __future__ import annotations

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.receiving.queue_owners import queue_owners
from tailrace.topology.plan import make_plan

SHARED = Policy(inbox="shared")
HOSTS = {0: "a", 1: "b", 2: "a", 3: "b", 4: "c"}


def plan_of():
    flow = tr.Topology("owners")
    numbers = flow.source(tr.sources.items([1])).shuffle()
    once = numbers.map(abs, tasks=5, name="once").shuffle().map(abs, tasks=4, name="twice")
    once.key_by(abs).count(tasks=4).sink(tr.sinks.discard(), tasks=1)
    return make_plan(flow)


PLACEMENT = [[0], [0, 1, 2, 3, 4], [2, 2, 4, 4], [0, 1, 2, 3], [0]]


def test_each_node_has_one_owner_per_stage_and_stages_differ():
    found = queue_owners(plan_of(), SHARED, Settings(), PLACEMENT, HOSTS)
    assert found == {1: [2, 3, 2, 3, 4]}  # the tasks of stage 2 on a node are in one worker anyway
    moved = [PLACEMENT[0], PLACEMENT[1], [0, 1, 2, 3], *PLACEMENT[3:]]
    assert queue_owners(plan_of(), SHARED, Settings(), moved, HOSTS)[2] == [0, 1, 0, 1]


def test_keyed_stages_own_queues_and_sharing_within_a_worker_have_none():
    assert 3 not in queue_owners(plan_of(), SHARED, Settings(), PLACEMENT, HOSTS)
    assert queue_owners(plan_of(), Policy(), Settings(), PLACEMENT, HOSTS) == {}
    assert queue_owners(plan_of(), SHARED, Settings(share_across="worker"), PLACEMENT, HOSTS) == {}
    assert list(queue_owners(plan_of(), Policy(inbox="shared:once"), Settings(), PLACEMENT, HOSTS)) == [1]
