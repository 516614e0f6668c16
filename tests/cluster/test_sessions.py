"""Sessions of a user's own: another Python on the executors, one that was stopped, what Spark's pages show."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from tests import sparks
from tests.queries import PATIENT, completed, ending, until

import tailrace as tr
from tailrace.spark.errors import InterpreterError, StoppedSessionError

pytestmark = pytest.mark.spark
TIMEOUT_S = 200

PROGRAM = """
    import sys
    import tailrace as tr
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2,50]").config("spark.ui.enabled", "false").getOrCreate()
    flow, out = tr.Topology("own"), tr.sinks.collect()
    flow.source(tr.sources.items(range(10))).sink(out)
    try:
        query = tr.start(flow, spark, workers=1)
        query.awaitTermination(100)
        print("ran", sorted(out.values))
    except tr.TailraceError as error:
        print(type(error).__name__, error)
    spark.stop()
    try:
        tr.start(flow, spark, workers=1)
    except tr.TailraceError as error:
        print(type(error).__name__)
    print("after the end:", "hosted by Spark" in query.explain() if "query" in globals() else "no query")
"""


@pytest.fixture
def run(tmp_path):
    """Run a program whose executors would find another ``python3`` first: one that is no Python of ours."""
    wrong = tmp_path / "bin" / "python3"
    wrong.parent.mkdir()
    # Like an interpreter of another version, it fails before the first line of a worker runs.
    wrong.write_text("#!/bin/sh\necho \"No module named 'pyspark'\" >&2\nexit 1\n")
    wrong.chmod(0o755)
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))

    def start(**variables):
        environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
        environment |= {"PATH": f"{wrong.parent}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, str(program)],
            env=environment | {name: value.format(wrong=wrong) for name, value in variables.items()},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.stdout, done.stderr

    return start


def test_a_local_session_without_a_chosen_python_runs_under_the_drivers(run):
    out, err = run()
    assert "ran [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]" in out, out + err
    assert StoppedSessionError.__name__ in out
    assert "after the end: True" in out


def test_executors_with_another_python_are_named_with_the_line_to_set(run):
    out, err = run(PYSPARK_PYTHON="{wrong}")
    assert InterpreterError.__name__ in out, out + err
    assert sys.executable in out
    assert "bin/python3" in out
    assert 'os.environ["PYSPARK_PYTHON"] = ' in out


def test_sparks_pages_show_the_name_of_the_query():
    flow = tr.Topology("shown by name")
    flow.source(tr.sources.rate(100)).sink(tr.sinks.discard())
    spark = sparks.session()
    with ending(tr.start(flow, spark, workers=1, settings=tr.Settings(progress_s=0.1, **PATIENT))) as query:
        until(lambda: completed(query) > 0, "progress", query)
        jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
        shown = [jobs.apply(at).description() for at in range(jobs.size())]
        texts = [each.get() for each in shown if each.isDefined()]
        assert f"tailrace shown by name (query {query.id})" in texts


INTERRUPTED = """
    import tailrace as tr
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2,50]").config("spark.ui.enabled", "false").getOrCreate()
    flow, out = tr.Topology("interrupted"), tr.sinks.collect()
    flow.source(tr.sources.rate(200)).shuffle().map(lambda value: value).sink(out)
    query = tr.start(flow, spark, workers=1, settings=tr.Settings(progress_s=0.1))
    try:
        while not out.values:
            query.awaitTermination(0.05)
        print("runs", flush=True)
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    print("drained", sorted(out.values) == list(range(query.lastProgress["read"])), query.exception(), flush=True)
    spark.stop()
"""


def test_ctrl_c_in_a_script_leaves_the_workers_to_be_drained(tmp_path):
    """PySpark's own handler would cancel the job that hosts them."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(INTERRUPTED))
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with subprocess.Popen(
        [sys.executable, str(program)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "runs\n"
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    assert out == "drained True None\n"
