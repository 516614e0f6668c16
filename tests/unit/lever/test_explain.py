"""Reading logs, finding stragglers, replaying."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tailrace.lever.cli import app
from tailrace.lever.errors import EventLogError
from tailrace.lever.explain import explain
from tailrace.lever.explain.eventlog import read_event_log

SHARED = Path(__file__).parents[4] / "shared" / "data" / "spark_tasks"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded Spark runs are not beside the project")

QUERY = "6f1c"


def task_end(stage, executor, start_ms, end_ms, rows, reason="Success"):
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task End Reason": {"Reason": reason},
        "Task Info": {"Executor ID": executor, "Host": f"h{executor}", "Launch Time": start_ms, "Finish Time": end_ms},
        "Task Metrics": {"Input Metrics": {"Records Read": rows, "Bytes Read": 0}},
    }


def stage_event(kind, stage, submitted_ms):
    return {
        "Event": f"SparkListenerStage{kind}",
        "Stage Info": {"Stage ID": stage, "Stage Attempt ID": 0, "Submission Time": submitted_ms},
        "Properties": {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(stage // 2)},
    }


def streaming_log(batches=6):
    """Four executors, the last four times slower; every second stage is the one after the shuffle."""
    for batch in range(batches):
        for stage in (2 * batch, 2 * batch + 1):
            begin_ms = 10_000 * batch + 5_000 * (stage % 2)
            yield stage_event("Submitted", stage, begin_ms)
            for executor in range(4):
                took_ms = 4000 if executor == 3 and stage % 2 == 0 else 1000
                yield task_end(stage, str(executor), begin_ms, begin_ms + took_ms, 500)
            yield task_end(stage, "0", begin_ms, begin_ms + 9000, 0, reason="TaskKilled")
            yield stage_event("Completed", stage, begin_ms)


def write(path, events):
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


@pytest.fixture
def log(tmp_path):
    return write(tmp_path / "app-1", [{"Event": "SparkListenerLogStart"}, *streaming_log()])


def test_a_streaming_log_names_the_straggler_and_the_gain(log):
    report = explain(log)
    figures = report.as_dict()["groups"][QUERY]
    assert figures["stages_used"] == 6
    assert list(figures["slow_stages"]) == ["3"]
    assert figures["p_slow_after_slow"] == 1.0
    assert figures["p_slow_after_not"] == 0.0
    assert figures["base_rate"] == 0.25
    # The first batch is split evenly (4 s), the others as 13 parts over speeds 4, 4, 4, 1.
    assert figures["recorded_ms"] == 24_000
    assert figures["planned_ms"] == pytest.approx(4000 + 5 * 1231, rel=0.01)
    assert "executor 3 on h3 was slow in 6 of 6 stages" in report.text()


def test_a_rolling_log_is_read_in_order(tmp_path):
    events = list(streaming_log())
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    for number, part in enumerate((events[:30], events[30:]), start=1):
        write(folder / f"events_{number}_app-1", part)
    (folder / "appstatus_app-1").write_text("")
    assert explain(folder).as_dict()["groups"][QUERY]["stages_used"] == 6


def test_a_torn_last_line_is_skipped(log):
    log.write_text(log.read_text() + '{"Event":"SparkListenerTaskEnd","Stage ID":')
    assert len(read_event_log(log)) == 12


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("missing", None, "does not exist"),
        ("other.txt", "hello\n", "none was found"),
        ("tasks.csv", "a,b\n1,2\n", "no column"),
    ],
)
def test_what_is_no_event_log_is_named(tmp_path, name, text, words):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(EventLogError, match=words):
        explain(path)


def test_a_folder_without_parts_is_named(tmp_path):
    with pytest.raises(EventLogError, match="rolling"):
        explain(tmp_path)


def test_the_command_prints_text_figures_and_plots(log, tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "plot.png"
    shown = CliRunner().invoke(app, ["explain", str(log), "--plot", str(plot)])
    assert shown.exit_code == 0, shown.output
    assert "executor 3 on h3" in shown.output
    assert plot.read_bytes().startswith(b"\x89PNG")
    figures = CliRunner().invoke(app, ["explain", str(log), "--json", "--plan", "proportional"])
    assert json.loads(figures.output)["plan"] == "proportional"


@needs_shared
def test_the_slow_executor_of_the_recorded_run_is_found():
    report = explain(SHARED / "shell_6hosts_failures.tasks.csv.gz")
    found = report.locality["application"]
    assert next(iter(found.slow_stages)) == "4"
    assert found.hosts["4"] == "h5"
    assert (round(found.p_after_slow, 3), found.after_slow[1]) == (0.482, 56)
    assert (round(found.p_after_not, 3), found.after_not[1]) == (0.121, 256)
    assert "0.48 (of 56)" in report.text()
    assert "0.12 (of 256)" in report.text()


@needs_shared
@pytest.mark.parametrize("name", ["dynamic_alloc_10exec", "q72_dataproc_cpu", "shell_6hosts_failures"])
def test_the_reference_figures_are_met(name):
    reference = json.loads((SHARED / "locality_reference.json").read_text())["logs"][name]
    found = explain(SHARED / f"{name}.tasks.csv.gz").locality["application"]
    assert found.stages_used == reference["stages_used"]
    assert round(found.p_after_slow, 3) == reference["executor_id"]["p_slow_after_slow"]
    assert round(found.p_after_not, 3) == reference["executor_id"]["p_slow_after_not"]


@needs_shared
@pytest.mark.parametrize(("name", "tasks"), [("app-20161115172038-0000", 16), ("application_1516285256255_0012", 20)])
def test_raw_event_logs_are_read(name, tasks):
    report = explain(SHARED / "raw_eventlogs" / name)
    assert report.tasks == tasks
    assert "slow in" in report.text()
