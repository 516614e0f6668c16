"""The ten most frequent URLs are ten URLs, and a count can be asked for its last word only."""

from __future__ import annotations

from collections import Counter

import tailrace as tr
from tailrace.coordinator.query import Query
from tailrace.testing import ProcessHost, TestSink, TestSource, run

URLS = [f"/page/{at % 20}" for at in range(400)] + ["/index"] * 300 + ["/about"] * 200
COUNTS = Counter(URLS)


def test_the_top_ten_are_ten_keys():
    flow, out = tr.Topology("top"), TestSink()
    counts = flow.source(TestSource(URLS)).key_by(lambda url: url).count(tasks=2)
    tr.split.top_k(counts, 10, tasks=2, by=lambda pair: pair[1]).sink(out)
    run(flow, workers=2)
    last = out.values[-1]
    assert len({url for url, _ in last}) == 10
    assert last[:2] == [("/index", 300), ("/about", 200)]
    assert [number for _, number in last] == [number for _, number in COUNTS.most_common(10)]


def test_a_count_gives_its_last_word_once_per_key_on_processes():
    flow, out = tr.Topology("final"), tr.sinks.collect()
    flow.source(tr.sources.items(URLS)).key_by(lambda url: url).count(tasks=2, emit="final").sink(out)
    query = Query(flow, ProcessHost(2), tr.Policy.auto(), tr.Settings()).start()
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop(now=True)
    assert len(out.values) == len(COUNTS)
    assert dict(out.values) == COUNTS
