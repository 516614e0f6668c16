from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from tailrace.metrics.histogram import Histogram
from tailrace_bench import registry
from tailrace_bench.arms.base import Window
from tailrace_bench.bench import BenchRequest
from tailrace_bench.comparison import measure
from tailrace_bench.comparison.measure import Found
from tailrace_bench.comparison.rows import comparison_rows
from tailrace_bench.errors import UnknownBenchError
from tailrace_bench.measurement.inside import crossing_share
from tailrace_bench.measurement.machine import OtherLoad
from tailrace_bench.measurement.pace import Pace
from tailrace_bench.measurement.plan import FULL, QUICK
from tailrace_bench.measurement.sustain import sustainable_rate
from tailrace_bench.reporting import report
from tailrace_bench.reporting.plots import points
from tailrace_bench.reporting.rows import P999_SAMPLES_MIN, make_row
from tailrace_bench.scale.simulated import coordinator_cores


def histogram(*values_ms: float) -> Histogram:
    made = Histogram()
    made.add([int(value * 1e6) for value in values_ms])
    return made


def found(**speeds: float) -> Found:
    made = Found(crossing=0.75, peer_missing="" if "bytewax" in speeds else "no index")
    for name, per_s in speeds.items():
        case = name.replace("__", ",")
        made.windows[case] = [Window(per_s * (1 + i / 100), 1.0, 2.0, 64 << 20) for i in range(5)]
    return made


def pick(rows, case, metric, baseline=None):
    (row,) = [r for r in rows if (r["case"], r["metric"], r["baseline"]) == (case, metric, baseline)]
    return row


def test_the_bars_are_on_the_tracked_arm_on_spark():
    speeds = {
        "spark__tracked": 50_000, "spark__untracked": 70_000, "processes__tracked": 55_000,
        "bare_loop": 100_000, "bytewax": 26_000,
    }  # fmt: skip
    rows = comparison_rows("wordcount", found(**speeds), cores=2)
    judged = {r["baseline"]: (r["bar"], r["ok"]) for r in rows if r["metric"] == "sentences_per_s" and r["bar"]}
    assert judged == {
        "bare_loop*cores": (0.22, True),
        "spark,untracked": (0.67, True),
        "processes,tracked": (0.85, True),
        "bytewax": (2.0, False),
    }
    assert pick(rows, "spark,tracked", "sentences_per_s", "bare_loop*cores")["ratio"] == pytest.approx(0.25)
    assert pick(rows, "bare_loop*cores", "sentences_per_s")["value"] == pytest.approx(204_000)
    assert pick(rows, "bytewax", "cpu_s_per_million_sentences")["value"] == pytest.approx(2e6 / (26_000 * 1.02))
    assert pick(rows, "bare_loop", "peak_mib")["value"] == 64
    assert pick(rows, "spark,tracked", "words_crossing", "half")["ok"] is True


def test_without_the_peer_its_rows_say_why():
    rows = comparison_rows("exclaim", found(spark__tracked=1.0), cores=2)
    assert pick(rows, "bytewax", "strings_per_s", "no index")["value"] is None


def use_cores(made: Found, cores: float) -> None:
    for at, histograms in list(made.latencies.items()):
        made.cores_used[at] = [cores if at[1] == "spark,tracked" else cores / 2] * len(histograms)


def test_latencies_at_a_rate_have_their_price_beside_them():
    made = Found()
    made.latencies[500, "spark,tracked"] = made.latencies[500, "bytewax"] = [histogram(0.5)] * 3
    use_cores(made, 1.2)
    row = pick(comparison_rows("wordcount", made, cores=2), "rate=500", "cores_used", "bytewax")
    assert (row["value"], row["ratio"], row["bar"]) == (1.2, 2.0, None)


def test_latencies_may_be_above_the_peer_by_the_spread_only():
    made = Found()
    made.latencies[500, "spark,tracked"] = [histogram(value) for value in (0.4, 0.5, 0.6)]
    made.latencies[500, "bytewax"] = [histogram(0.5)] * 3
    made.latencies[2000, "spark,tracked"] = [histogram(2.0)] * 3
    made.latencies[2000, "bytewax"] = [histogram(1.0)] * 3
    use_cores(made, 0.6)
    rows = comparison_rows("wordcount", made, cores=2)
    assert pick(rows, "rate=500", "p50_ms", "bytewax")["ok"] is True
    assert pick(rows, "rate=2000", "p99_ms", "bytewax")["ok"] is False


def test_one_in_a_thousand_needs_its_samples():
    made = Found()
    few, many = histogram(*[1.0] * 10), Histogram()
    many.add([1_000_000] * (P999_SAMPLES_MIN // 2))
    made.latencies[500, "spark,tracked"] = [few, few]
    made.latencies[2000, "spark,tracked"] = [many, many]
    use_cores(made, 0.6)
    rows = [row for row in comparison_rows("wordcount", made, cores=2) if row["metric"] == "p999_ms"]
    assert [row["value"] is None for row in rows] == [True, False]
    assert rows[0]["baseline"].startswith("20 samples")


def test_a_full_run_offers_enough_for_one_in_a_thousand():
    assert all(rate * seconds * FULL.offer_repeats >= P999_SAMPLES_MIN for rate, seconds in FULL.offers_s.items())


def test_a_quick_run_is_planned_below_four_minutes_with_all_its_spare_rounds():
    most = replace(
        QUICK, start_repeats=QUICK.start_repeats + QUICK.spare, offer_repeats=QUICK.offer_repeats + QUICK.offer_spare
    )
    assert measure.planned_s(most, None) < 240


def test_the_share_that_crosses_workers():
    tasks = [
        {"operators": ["split"], "task": 0, "worker": 1},
        {"operators": ["split"], "task": 1, "worker": 2},
        {"operators": ["count", "keep"], "task": 0, "worker": 0},
        {"operators": ["count", "keep"], "task": 1, "worker": 1},
    ]
    edges = [
        {"from": f"split[{i}]", "to": f"count[{j}]", "tuples": tuples}
        for i, j, tuples in ((0, 0, 30), (0, 1, 20), (1, 0, 30), (1, 1, 20))
    ]
    others = [{"from": "sentences[0]", "to": "split[0]", "tuples": 9}, {"from": "others", "to": "others", "tuples": 9}]
    assert crossing_share({"tasks": tasks, "edges": edges + others}, "split", "count") == 0.8


@pytest.mark.parametrize("limit", [100.0, 3999.0, 4000.0, 26_000.0, 5e5, 2e6])
def test_the_search_comes_near_the_highest_rate_that_holds(limit):
    tried = []

    def holds(rate: float) -> bool:
        tried.append(rate)
        return rate <= limit

    rate = sustainable_rate(holds, 4000.0, most_per_s=1e6)
    wanted = min(limit, 1e6)
    assert rate <= wanted
    assert rate >= wanted * 0.88 - 4000 / 64
    assert len(tried) < 20


def test_the_report_is_as_the_schema_says(tmp_path):
    rows = [make_row("c", "m", "u", [1.0], better="lower", base=[2.0], baseline="b", bar=1.0)]
    file = tmp_path / "rows.json"
    report.write_json(file, report.document("wordcount", rows, OtherLoad(2, 0.0, 0.0), 0.125, {"bytewax": "0.21.1"}))
    read = json.loads(file.read_text())
    assert list(read) == ["bench", "machine", "versions", "commit", "rows"]
    assert read["rows"] == rows
    assert read["versions"]["bytewax"] == "0.21.1"


def test_the_table_names_what_was_missed():
    out = io.StringIO()
    rows = [make_row("spark,tracked", "m", "u", [1.0], better="higher", base=[2.0], baseline="b", bar=1.0)]
    report.show(Console(file=out, width=150), "wordcount", rows, ["75% of the words cross workers"])
    assert "MISSED" in out.getvalue()
    assert "0 of 1 bars met." in out.getvalue()
    assert "75% of the words" in out.getvalue()


def test_the_time_left_shrinks_with_what_was_planned_and_stretches_with_what_it_took():
    out, now_s = io.StringIO(), 0.0
    with Pace(Console(file=out), 100.0, clock_s=lambda: now_s) as pace:
        pace.step("one", 20.0)
        now_s = 15.0
        assert pace.left_s() == 85.0
        now_s = 40.0
        pace.step("a word on it", 0)
        assert pace.left_s() == 80.0, "what was planned for a step does not last longer than that"
        pace.step("two", 80.0)
        assert pace.left_s() == 160.0, "the first one took twice as long as planned"
        now_s = 200.0
        assert pace.left_s() == 0.0
    assert "1 min 40 s left  one" in out.getvalue()
    assert "2 min 40 s left  two" in out.getvalue()


def test_unknown_names_are_refused_before_anything_starts():
    with pytest.raises(UnknownBenchError, match="wordcont") as error:
        registry.find("wordcont")
    assert "wordcount" in error.value.hint
    console = Console(file=io.StringIO())
    with pytest.raises(UnknownBenchError, match="rate=501"):
        registry.find("wordcount").run(BenchRequest(console, quick=True, only="rate=501"))


def test_the_real_brain_takes_simulated_reports():
    assert coordinator_cores(10, seconds=1) > 0


def test_a_curve_runs_over_the_number_at_the_end_of_its_cases():
    rows = [make_row(f"tasks={n}", "p99_ms", "ms", [float(n)], better="lower") for n in (16, 1, 4)]
    assert points(rows, "p99_ms", "tasks=") == [(1, 1.0), (4, 4.0), (16, 16.0)]
