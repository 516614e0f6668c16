"""Links with a delay: another host name is another node, a little away, and nothing is lost on the way."""

from __future__ import annotations

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.testing.processes import ProcessHost


def test_workers_of_two_hosts_talk_by_delayed_tcp_and_nothing_is_lost():
    flow = tr.Topology("apart")
    out = tr.sinks.collect()
    source = flow.source(tr.sources.items(range(500), partitions=2), tasks=2, name="source")
    source.shuffle().map(lambda value: value + 1, tasks=2, name="add").shuffle().sink(out, tasks=2, name="end")
    host = ProcessHost(2, hosts=["127.0.1.1", "127.0.1.2"], link_delay_ms=20.0)
    query = Query(flow, host, Policy(), Settings(progress_s=0.2)).start()
    query.awaitTermination(60)
    assert sorted(out.values) == list(range(1, 501))
    row = query.lastProgress["traffic"][0]
    assert row["tuples"] == {"inProcess": 250, "intraNode": 0, "interNode": 250}
    # A root that crosses once comes back by an ack: both ways are 20 ms longer than they were.
    assert query.latency["max_ms"] >= 40
