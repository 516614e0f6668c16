"""A limited uplink shared by the workers of a node, as real processes: one of them is killed, and nothing is lost."""

from __future__ import annotations

import os
import signal

import pytest
from tests.queries import PATIENT, all_open, completed, ending, pids, until

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query

pytestmark = pytest.mark.chaos


def test_a_killed_worker_holds_neither_the_table_nor_its_nodes_link_up():
    flow, out = tr.Topology("ids"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(3000), name="numbers", tasks=2)
    numbers.shuffle().map(lambda v: v, name="pass", tasks=4).shuffle().sink(out, tasks=2)
    settings = tr.Settings(progress_s=0.1, link_bytes_per_s=2_000_000, node_is="executor", **PATIENT)
    policy = tr.Policy(sending="lbf", placement="by_operator")
    host = testing.ProcessHost(6, per_executor=2)
    with ending(Query(flow, host, policy, settings).start()) as query:
        assert [set(slots) for slots in query._brain.placement] == [{0, 1}, {2, 3}, {4, 5}]
        for kill, slot in enumerate((2, 1), start=1):  # 2 made the table of its node
            until(lambda kill=kill: completed(query) > 1000 * kill, "progress", query)
            os.kill(pids(query)[slot], signal.SIGKILL)
            until(lambda kill=kill: query._brain.restarts == kill and all_open(query), "a successor", query)
        before = completed(query)
        until(lambda: completed(query) > before + 1000, "progress", query)
        assert any("uplink" in task for task in query.lastProgress["tasks"])
        query.stop()
    read = query._brain._marks
    assert len(set(out.values)) == sum(read.values())
