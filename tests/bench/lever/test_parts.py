"""Every part of the benchmark runs and gives its rows, at a size that says nothing about speed."""

from __future__ import annotations

import pytest
from tests import sparks

from tailrace_bench.lever.arms import PARTS, Size
from tailrace_bench.lever.main import run
from tailrace_bench.lever.scenarios import SCENARIOS
from tailrace_bench.lever.workloads import CASES, BatchLoad

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]

TINY = Size(
    BatchLoad(rows=40, wait_us=200, partitions=4, trigger_s=0.25),
    rounds=1,
    warm=0,
    batches=1,
    parts=PARTS,
    warm_up=0,
    before=1,
    after=2,
    lengths_s=(0.25,),
)


def test_every_part_gives_its_rows(tmp_path):
    sparks.stop()
    rows = run(size=TINY, plots=tmp_path)
    found = {(row["case"], row["metric"]) for row in rows}
    for case in CASES:
        assert {(case, metric) for metric in ("batch_ms_mean", "batch_ms_p99", "local_share", "waiting_share")} <= found
        assert next(r["value"] for r in rows if (r["case"], r["metric"]) == (case, "cpu_utilisation")) > 0
    assert {(scenario.name, "batches_to_converge") for scenario in SCENARIOS} <= found
    assert {
        ("no_straggler", "batch_ms_mean"),
        ("interval_0.25s", "batch_ms_mean"),
        ("helpers_12", "batch_ms_mean"),
    } <= found
    assert {path.name for path in tmp_path.iterdir()} == {
        "lever_convergence.svg", "lever_helpers.svg", "lever_intervals.svg",
    }  # fmt: skip
