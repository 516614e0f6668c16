"""With and without Lever a query gives the same rows and the same numInputRows, whatever its source and shape.

Queries run several at a time, which is what sessions with many queries do to Lever's planner and to pinned tasks.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tailrace import lever

from .shapes import SHAPES, write_inputs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

BATCHES = 2
AT_ONCE = 5


class Run:
    """A few batches of one query."""

    def __init__(self, frame, mode, checkpoint):
        self.rows = {}
        self.query = (
            frame.writeStream.foreachBatch(self.keep)
            .outputMode(mode)
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime="0 seconds")
            .start()
        )

    def keep(self, batch, number):
        self.rows[number] = Counter(map(str, batch.collect()))

    def finish(self):
        # The rate source never ends; the files and the counting source do, in as many batches.
        while len(self.input_rows()) < BATCHES and self.query.isActive:
            self.query.awaitTermination(0.05)
        self.query.stop()
        if self.query.exception():
            raise self.query.exception()
        return self

    def input_rows(self):
        found = {p["batchId"]: p["numInputRows"] for p in self.query.recentProgress if p["numInputRows"]}
        return {batch: found[batch] for batch in sorted(found)[:BATCHES]}

    def result(self):
        return {batch: self.rows[batch] for batch in range(BATCHES)}


def run_all(spark, inputs, root, conf):
    found = {}
    numbered = list(enumerate(SHAPES))
    for first in range(0, len(numbered), AT_ONCE):
        started = {}
        for index, shape in numbered[first : first + AT_ONCE]:
            # A query takes over the session's settings as they are when it starts.
            conf("spark.sql.adaptive.enabled", str(index % 2 == 0).lower())
            conf("spark.sql.codegen.wholeStage", str(index % 3 != 0).lower())
            started[shape.name] = Run(shape.build(spark, inputs), shape.mode, root / shape.name)
        found |= {name: run.finish() for name, run in started.items()}
    return found


@pytest.fixture(scope="module")
def outcome(spark, tmp_path_factory):
    inputs = tmp_path_factory.mktemp("inputs")
    write_inputs(spark, inputs)
    off = run_all(spark, inputs, tmp_path_factory.mktemp("off"), spark.conf.set)
    enabled = lever.enable(spark, plan_timeout_ms=20_000)
    on = run_all(spark, inputs, tmp_path_factory.mktemp("on"), spark.conf.set)
    status = {name: enabled.status(run.query.id) for name, run in on.items()}
    lever.disable(spark)
    for key in ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage"):
        spark.conf.unset(key)
    return off, on, status


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_same_rows(outcome, shape):
    off, on, status = (part[shape.name] for part in outcome)
    assert on.result() == off.result()
    assert on.input_rows() == off.input_rows()
    assert status.failures == {}
    assert status.batches, "Lever did not act"
    if shape.fixed is not None:
        assert {bool(batch.fixed) for batch in status.batches} == {shape.fixed}
    assert all(sum(row.share for row in batch.executors) == pytest.approx(1.0) for batch in status.batches)
