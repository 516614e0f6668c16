"""A query that is started a second time does not silently write its results a second time."""

from __future__ import annotations

import os
import signal

import pytest
from tests.queries import ended, ending, pids, until

import tailrace as tr
from tailrace.connect.errors import OutputExistsError
from tailrace.coordinator.query import Query
from tailrace.testing import ProcessHost

COUNT = 454


def write(folder, **options):
    flow = tr.Topology("numbers")
    flow.source(tr.sources.items(range(COUNT))).sink(tr.sinks.json_lines(folder, **options))
    with ending(Query(flow, ProcessHost(1), tr.Policy.auto(), tr.Settings()).start()) as query:
        ended(query)
    return sum(len(part.read_text().splitlines()) for part in folder.glob("part-*.jsonl"))


def test_the_second_start_is_refused_unless_it_says_what_it_wants(tmp_path):
    assert write(tmp_path) == COUNT
    with pytest.raises(OutputExistsError, match="results of an earlier query"):
        write(tmp_path)
    assert write(tmp_path, mode="overwrite") == COUNT
    assert write(tmp_path, mode="append") == 2 * COUNT


def test_a_worker_that_restarts_goes_on_in_its_file(tmp_path):
    part = tmp_path / "part-00000.jsonl"
    flow = tr.Topology("killed")
    flow.source(tr.sources.rate(500, count=1000)).sink(tr.sinks.json_lines(tmp_path))
    with ending(Query(flow, ProcessHost(1), tr.Policy.auto(), tr.Settings(progress_s=0.2)).start()) as query:
        until(lambda: part.exists() and part.read_text().count("\n") > 100, "some lines", query)
        os.kill(pids(query)[0], signal.SIGKILL)
        ended(query)
    assert set(map(int, part.read_text().split())) == set(range(1000))
