"""Reading logs, finding stragglers, replaying."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tailrace.lever.cli import app
from tailrace.lever.errors import EventLogError, PlotError
from tailrace.lever.explain import explain, plots
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


@needs_shared
@pytest.mark.parametrize("name", ["app-20161115172038-0000", "application_1516285256255_0012"])
def test_raw_event_logs_are_drawn(name, tmp_path):
    pytest.importorskip("matplotlib")
    shown = CliRunner().invoke(
        app, ["explain", str(SHARED / "raw_eventlogs" / name), "--plot", str(tmp_path / "p.svg")]
    )
    assert shown.exit_code == 0, shown.output


def one_executor_log():
    """As local[n] writes it: nobody to compare with."""
    return [task_end(stage, "driver", 1000 * stage, 1000 * stage + 300, 500) for stage in range(3)]


@pytest.mark.parametrize("events", [list(streaming_log(batches=1)), one_executor_log()], ids=["stage", "executor"])
@pytest.mark.parametrize("kind", ["svg", "png"])
def test_one_stage_and_one_executor_are_drawn_too(tmp_path, events, kind):
    pytest.importorskip("matplotlib")
    plot = tmp_path / f"plot.{kind}"
    shown = CliRunner().invoke(app, ["explain", str(write(tmp_path / "app-1", events)), "--plot", str(plot)])
    assert shown.exit_code == 0, shown.output
    if kind == "svg":
        drawn = plot.read_text()
        # Every recorded stage is a point that can be seen: matplotlib places markers by <use>.
        assert drawn.count("<use") > 20
    assert plot.stat().st_size > 5000


def test_recorded_stages_are_drawn_with_markers(tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    report = explain(write(tmp_path / "app-1", streaming_log(batches=1)))
    panel = Figure().subplots()
    plots._draw_stages(panel, "q", report.groups[QUERY], report.plan)
    (line,) = panel.get_lines()
    assert list(line.get_ydata()) == [4.0]
    assert line.get_marker() == "o"


@pytest.mark.parametrize("name", ["absent/plot.png", "plot.docx"])
def test_a_plot_that_cannot_be_written_is_named(log, tmp_path, name):
    pytest.importorskip("matplotlib")
    shown = CliRunner().invoke(app, ["explain", str(log), "--plot", str(tmp_path / name)])
    assert isinstance(shown.exception, PlotError)
    assert "executor 3 on h3" in shown.output, "the report is printed all the same"


def two_kinds(stage, begin_ms):
    """Executor 2 is slow, executor 3 has three times the input and takes three times as long."""
    yield stage_event("Submitted", stage, begin_ms)
    for executor, rows, took_ms in (("0", 1000, 1000), ("1", 1000, 1000), ("2", 1000, 3000), ("3", 3000, 3000)):
        yield task_end(stage, executor, begin_ms, begin_ms + took_ms, rows) | {"Stage Attempt ID": 0}


def test_more_data_is_told_apart_from_a_slow_executor_and_both_say_how_much(tmp_path):
    events = [event for stage in (0, 2, 4) for event in two_kinds(stage, 10_000 * stage)]
    report = explain(write(tmp_path / "app-1", events))
    causes = report.as_dict()["groups"][QUERY]["causes"]
    assert {(cause["executor"], cause["kind"]) for cause in causes} == {("2", "slow"), ("3", "data")}
    text = report.text()
    assert "executor 2 on h2 was slow in 3 of 3 stages: a task took 1.5x as long as on the median executor" in text
    assert "executor 3 on h3 had more data in 3 of 3 stages" in text
    assert "skew" in text


def test_one_task_with_more_data_is_named_with_its_input(tmp_path):
    events = [task_end(7, str(n % 2), 0, 1000, 1000) for n in range(6)] + [task_end(7, "1", 0, 5000, 5000)]
    for index, event in enumerate(events):
        event["Task Info"]["Index"] = index
    text = explain(write(tmp_path / "app-1", events)).text()
    assert (
        "stage 7, task 6 on executor 1 had more data: 5.0x the time of the stage's median task, 5.0x its input" in text
    )
    assert "(5,000 records)" in text


def test_a_few_bytes_more_explain_nothing(tmp_path):
    events = [task_end(0, str(n), 0, 4000 if n == 3 else 1000, 50 if n == 3 else 1) for n in range(4) for _ in "ab"]
    (cause,) = explain(write(tmp_path / "app-1", events)).as_dict()["groups"]["application"]["causes"]
    assert (cause["kind"], cause["time_factor"], cause["input_factor"]) == ("slow", 4.0, 1.0)


def test_without_counted_input_neither_is_claimed(tmp_path):
    events = [task_end(0, str(n), 0, 4000 if n == 3 else 1000, 0) for n in range(4) for _ in "ab"]
    report = explain(write(tmp_path / "app-1", events))
    assert report.as_dict()["groups"]["application"]["causes"][0]["kind"] == "unknown"
    assert "cannot be told from one that had more data" in report.text()


def test_rows_of_shuffles_are_input_too(tmp_path):
    events = [task_end(0, str(n), 0, 4000 if n == 3 else 1000, 0) for n in range(4) for _ in "ab"]
    for event in events:
        rows = 4000 if event["Task Info"]["Executor ID"] == "3" else 1000
        event["Task Metrics"]["Shuffle Read Metrics"] = {"Total Records Read": rows, "Local Bytes Read": 8 * rows}
    (cause,) = explain(write(tmp_path / "app-1", events)).as_dict()["groups"]["application"]["causes"]
    assert (cause["kind"], cause["input_factor"]) == ("data", 4.0)


def lopsided(batches=4):
    """One executor reads nearly everything: at the other's rate the whole input would take hours."""
    for batch in range(batches):
        yield stage_event("Submitted", 2 * batch, 10_000 * batch)
        for executor, rows in (("0", 100_000), ("1", 10)):
            yield task_end(2 * batch, executor, 10_000 * batch, 10_000 * batch + 1000, rows)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        (list(lopsided()), "10,000 times as much in the same time"),
        (list(streaming_log(batches=1)), "there is one stage"),
        (one_executor_log(), "no stage ran on two executors"),
    ],
    ids=["lopsided", "one stage", "one executor"],
)
def test_no_estimate_is_given_where_it_would_be_nonsense(tmp_path, events, reason):
    report = explain(write(tmp_path / "app-1", events))
    (figures,) = report.as_dict()["groups"].values()
    assert figures["planned_ms"] is None
    assert reason in figures["no_estimate"]
    assert f"no estimate, because {figures['no_estimate']}" in report.text()
    assert " %)" not in report.text()


@needs_shared
def test_no_estimate_of_a_recorded_run_is_beyond_its_bound():
    for path in (*SHARED.glob("*.tasks.csv.gz"), *(SHARED / "raw_eventlogs").iterdir()):
        for figures in explain(path).as_dict()["groups"].values():
            assert figures["planned_ms"] is None or figures["planned_ms"] <= 2 * figures["recorded_ms"], path.name
