"""What users are told of checkpoints and recoveries."""

from __future__ import annotations

import random

from tests.durability import flows

from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.config import Settings
from tailrace.coordinator.reporting.durability import EpochFigures, checkpoint_row, recovery_row
from tailrace.metrics.prometheus import render
from tailrace.testing.inprocess import InProcess

MS = 1_000_000


def test_an_epoch_is_told_of_with_the_time_of_each_step_and_its_size():
    figures = EpochFigures()
    assert figures.age_s(5) is None
    figures.failed()
    for step, at_ms in (("marks", 1), ("prepare", 3), ("cut", 6), ("publish", 10)):
        figures.entered(step, at_ms * MS)
    figures.written(70)
    figures.written(30)
    figures.published(15 * MS)
    assert figures.took_ms == {"marks": 2.0, "prepare": 3.0, "cut": 4.0, "publish": 5.0}
    assert (figures.size_bytes, figures.durable, figures.failures, figures.failures_in_a_row) == (100, 1, 1, 0)
    assert figures.age_s(2015 * MS) == 2.0


def test_progress_explain_and_metrics_tell_of_a_loss():
    drawn = flows.final_counts(random.Random(3))
    every = Checkpoint("memory", every_s=0.001, standby=1)
    settings = Settings(progress_s=0.0002, max_pending=24, batch_max=4, slice_us=1)
    with InProcess(drawn.flow, workers=3, settings=settings, seed=3, store=MemoryStore(), checkpoint=every) as query:
        while query.brain.checkpoints.durable is None:
            query.turns(1)
        row = checkpoint_row(query.brain, query.clock.now_ns())
        assert row["epoch"] == query.brain.checkpoints.durable.epoch
        assert row["duration_ms"] > 0
        assert row["size_bytes"] > 0
        assert row["standbys"]
        query.kill(query.brain.placement[-1][0], comes_back=False)
        assert recovery_row(query.brain) == {"count": 1, "returns": 0, "newest": []}
        while query.brain.state != "running":
            query.turns(1)
        (newest,) = recovery_row(query.brain)["newest"]
        assert newest["took_ms"] > 0
        assert sum(newest["restored"].values())
        assert newest["why"] in query.explain()
        query.finish()
        text = render("told", query.brain.book.recent[-1])
    assert 'tailrace_recoveries_total{query="told"} 1' in text
    assert "tailrace_recovery_duration_seconds" in text
    assert "NaN" not in text
    assert drawn.faults(drawn.out.values) == ""
