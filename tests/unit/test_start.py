"""``tr.start`` and ``tailrace run`` find what can be found without Spark before they start it: no JVM comes up."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

FILE = """
import tailrace as tr
flow = tr.Topology("wrong")
{drawn}
"""
MAIN = "from tailrace.cli.main import main; main()"
LINES = 'flow.source(tr.sources.lines("nosuch")).sink(tr.sinks.discard())'
FOLDER = 'flow.source(tr.sources.items([1])).sink(tr.sinks.json_lines("file/out"))'
TABLE = 'flow.source(tr.sources.items([1])).sink(tr.sinks.table("file/out", "n long"))'
FINE = "flow.source(tr.sources.items([1])).sink(tr.sinks.discard())"


@pytest.fixture
def python(tmp_path, monkeypatch):
    """Run a program where Java is a script that leaves a mark; gives what it printed to stderr."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    (tmp_path / "file").touch()

    def run(*args):
        done = subprocess.run(
            [sys.executable, *args], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode != 0
        return done.stderr, (tmp_path / "started").exists()

    return run


@pytest.mark.parametrize(
    ("drawn", "called", "error"),
    [
        (LINES, "tr.start(flow)", "NoInputError: No file matches"),
        (FOLDER, "tr.start(flow)", "OutputError: json_lines is to write into"),
        (TABLE, "tr.start(flow)", "OutputError: table is to write into"),
        (FINE, "tr.start(flow, workers='2')", "ConfigError: workers must be a whole number above 0; found '2'"),
        (FINE, "tr.start(flow, policy='metis')", "ConfigError: policy must be"),
        (FINE, "tr.start(flow, settings={'max_pendin': 1})", "ConfigError: Settings has no setting"),
        (FINE, "flow.apply(None, workers='2')", "ConfigError: workers must be"),
        (FINE, "flow.apply(None, policy='metis')", "ConfigError: policy must be"),
    ],
)
def test_start_refuses_without_a_jvm(python, drawn, called, error):
    told, java_ran = python("-c", textwrap.dedent(FILE.format(drawn=drawn)) + called)
    assert error in told
    assert not java_ran


def test_what_is_accepted_gets_as_far_as_java(python):
    """The mark is real: where nothing is wrong, the same program does start Java."""
    told, java_ran = python(
        "-c", FILE.format(drawn=FINE) + "tr.start(flow, policy='auto', settings={'max_pending': 9})"
    )
    assert "ConfigError" not in told
    assert java_ran


@pytest.mark.parametrize(("drawn", "error"), [(LINES, "No file matches"), (FOLDER, "is to write into")])
def test_run_refuses_without_a_jvm(python, tmp_path, drawn, error):
    (tmp_path / "mine.py").write_text(FILE.format(drawn=drawn))
    told, java_ran = python("-c", MAIN, "run", "mine.py")
    assert error in told
    assert not java_ran


def test_run_refuses_a_file_that_is_not_there_without_a_jvm(python):
    told, java_ran = python("-c", MAIN, "run", "nosuch.py")
    assert "nosuch.py" in told
    assert not java_ran
