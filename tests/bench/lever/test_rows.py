"""The figures of the benchmark, without its cluster."""

from __future__ import annotations

import pytest

from tailrace.lever.explain.tasks import StageAttempt, TaskAttempt
from tailrace.lever.plans import DEFAULT_PLAN
from tailrace_bench.lever.arms import ARMS, QUICK
from tailrace_bench.lever.errors import LeverBenchError
from tailrace_bench.lever.main import case_rows, run
from tailrace_bench.lever.rows import Round, paired, task_figures
from tailrace_bench.lever.scenarios import settled_after
from tailrace_bench.lever.sweeps import helpers
from tailrace_bench.reporting import report

COLUMNS = {
    "case", "metric", "unit", "baseline", "baseline_value", "value", "ratio", "repeats", "spread", "better", "bar",
    "ok", "paper",
}  # fmt: skip


def test_a_ratio_is_the_median_of_paired_rounds():
    row = paired("c", "m", "default", [50, 60, 900], [100, 100, 1000], bar=0.6)
    assert (row["ratio"], row["spread"], row["ok"]) == (0.6, 0.2, True)
    assert not paired("c", "m", "default", [61], [100], bar=0.6)["ok"]


def test_the_tail_of_a_few_batches_is_the_slowest():
    assert Round([1.0, 9.0, 2.0]).p99_ms == 9.0


def stage(*tasks):
    return StageAttempt(
        0, 0, 1000, tuple(TaskAttempt(0, 0, "e", "h", *times, 1, 0, locality=where) for *times, where in tasks)
    )


def test_task_figures():
    rounds = [Round([1000.0], [stage((1000, 1500, "PROCESS_LOCAL"), (1800, 2000, "ANY"))])]
    figures = task_figures(rounds, trigger_s=1.0, cores=2)
    assert figures == {"local_share": 0.5, "waiting_share": 0.5, "cpu_utilisation": pytest.approx(0.35)}


def test_every_arm_is_compared_and_every_row_has_all_columns():
    found = {arm.name: [Round([1000.0]) for _ in range(5)] for arm in ARMS}
    found[DEFAULT_PLAN] = [Round([400.0]) for _ in range(5)]
    rows = case_rows("wordcount", found, QUICK)
    assert all(set(row) == COLUMNS for row in rows)
    assert report.table("lever", rows).row_count == len(rows)
    barred = {(row["metric"], row["baseline"]): (row["bar"], row["ok"]) for row in rows if row["bar"]}
    assert barred["batch_ms_mean", "default"] == (0.60, True)
    assert barred["batch_ms_p99", "small_tasks"] == (0.75, True)
    assert {row["case"] for row in rows} >= {"wordcount", "wordcount.lever", "wordcount.lever_speculation"}


@pytest.mark.parametrize(
    ("batch_ms", "batches"),
    [([100] * 10, 0), ([400, 100, 100, 100, 100, 100], 1), ([400, 100, 300, 100, 100, 100], 3)],
)
def test_batches_to_settle(batch_ms, batches):
    assert settled_after(batch_ms) == batches


def test_an_unknown_part_names_the_nearest():
    with pytest.raises(LeverBenchError, match="wordcont") as caught:
        run(cases=["wordcont"])
    assert "wordcount" in caught.value.hint


def test_the_study_of_helpers_needs_no_spark(tmp_path):
    rows = run(cases=["helpers"], plots=tmp_path)
    assert [row["case"] for row in rows][:13] == [f"helpers_{count}" for count in range(13)]
    assert (tmp_path / "lever_helpers.svg").exists()


def test_more_helpers_help_and_the_default_plan_needs_none():
    rows = {row["case"]: row["ratio"] for row in helpers(None, counts=(0, 4, 12))}
    assert rows["helpers_12"] < rows["helpers_4"] < rows["helpers_0"] == 1.0
    assert rows[f"helpers_{DEFAULT_PLAN}"] < rows["helpers_12"]
