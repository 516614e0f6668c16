"""What is advised when Spark is in the way is true where it is advised."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tailrace.spark.checks import _too_few, restarts_hint


@pytest.mark.parametrize(
    ("workers", "beside", "slots", "advised"), [(4, 0, 2, "pass workers=2."), (4, 1, 2, "pass workers=1.")]
)
def test_fewer_workers_are_advised_where_they_fit(workers, beside, slots, advised):
    assert advised in _too_few(workers, beside, slots, "Give the application more cores").hint


@pytest.mark.parametrize(("workers", "beside", "slots"), [(1, 1, 1), (1, 0, 0), (2, 2, 2)])
def test_what_was_asked_for_is_not_advised(workers, beside, slots):
    hint = _too_few(workers, beside, slots, "Give the application more cores").hint
    assert "workers=" not in hint
    assert "no slot left" in hint


@pytest.mark.parametrize("master", ["local[2]", "local[*]", "local"])
def test_a_local_master_is_not_told_of_max_failures_as_a_way_out(master):
    hint = restarts_hint(SimpleNamespace(master=master))
    assert "whatever spark.task.maxFailures says" in hint
    assert "local[n,1000]" in hint


def test_a_cluster_is_told_of_max_failures():
    assert "tailrace.spark_session() raises it" in restarts_hint(SimpleNamespace(master="local-cluster[2,1,1024]"))
