"""A topology on local[n], and what it finds in its way on sessions that were set up for something else."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests import sparks
from tests.queries import PATIENT, assert_exact, ended, ending, plain_count, text_path, word_count

import tailrace as tr
from tailrace.spark import errors
from tailrace.spark.checks import context_of

pytestmark = pytest.mark.spark
LOCAL = "local[2,1000]"


def trivial():
    flow = tr.Topology("trivial")
    flow.source(tr.sources.items([1])).sink(tr.sinks.discard())
    return flow


def test_the_word_count_runs_in_one_jvm():
    flow, out = word_count(text_path())
    with ending(tr.start(flow, sparks.session(LOCAL), workers=2, settings=tr.Settings(**PATIENT))) as query:
        ended(query)
    assert_exact(out.values, plain_count(text_path()))


def test_more_workers_than_slots():
    with pytest.raises(errors.SlotsError, match=r"3 workers need 3 task slots.* has 2") as caught:
        tr.start(trivial(), sparks.session(LOCAL), workers=3)
    assert "workers=2" in caught.value.hint


def test_executors_without_tailrace(tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    context = sparks.session(LOCAL).sparkContext
    monkeypatch.setattr(context, "pythonExec", str(tmp_path / "bin" / "python"))
    with pytest.raises(errors.NotOnExecutorsError, match="with tailrace installed; they run") as caught:
        tr.start(trivial(), sparks.session(LOCAL), workers=2, settings=tr.Settings(**PATIENT))
    assert "docs/deploy.md" in caught.value.hint


def test_speculation():
    spark = sparks.session(LOCAL, {"spark.speculation": "true"})
    with pytest.raises(errors.SpeculationError, match="second copies") as caught:
        tr.start(trivial(), spark, workers=2)
    assert "spark.speculation=false" in caught.value.hint


TIGHT = {
    "spark.executor.pyspark.memory": "1100m",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "1",
}


def test_too_little_address_space_for_the_rings():
    with pytest.raises(errors.PySparkMemoryError, match=r"leaves a worker 1100 MiB.* 1216 MiB") as caught:
        tr.start(trivial(), sparks.session(LOCAL, TIGHT), workers=2, settings=tr.Settings(ring_bytes=64 << 20))
    assert "ring_bytes" in caught.value.hint


def test_an_allocation_that_cannot_reach_the_slots():
    with pytest.raises(errors.SlotsError, match="has 1") as caught:
        tr.start(trivial(), sparks.session(LOCAL, TIGHT), workers=2)
    assert "maxExecutors" in caught.value.hint


def test_a_connect_session():
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(errors.SparkConnectError, match=r"pyspark\.sql\.connect") as caught:
        context_of(connected)
    assert "spark-submit" in caught.value.hint
