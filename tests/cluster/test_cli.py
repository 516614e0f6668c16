"""The commands against a real Spark, as a user calls them: in a process of their own, piped, interrupted, failing."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tailrace.cli.wordcount import sentences
from tailrace.program.errors import OperatorError

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 200
GONE_S = 60


@pytest.fixture
def tailrace(tmp_path):
    """Start the command in a session of its own, so that whatever it leaves behind can be told; Ctrl-C is for all."""
    started = []

    def start(*args, **variables):
        process = subprocess.Popen(
            [sys.executable, "-c", "from tailrace.cli.main import main; main()", *map(str, args)],
            cwd=tmp_path,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def finished(process):
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert not left_by(process), "processes left behind"
    assert "Traceback" not in err
    return process.returncode, out, err


def left_by(process):
    """The processes of the command's session that do not go away: JVMs, executors, Python workers."""
    deadline_s = time.monotonic() + GONE_S
    while left := [pid for pid in pids() if session_of(pid) == process.pid]:
        if time.monotonic() > deadline_s:
            break
        time.sleep(0.05)
    return left


def pids():
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def session_of(pid):
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid)
    return None


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "mine.py"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


def test_the_demo_loses_nothing_counts_exactly_and_is_quiet(tailrace):
    code, out, err = finished(tailrace("demo", "--seconds", 3, "--rate", 500, "--workers", 2))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("Starting Spark ")
    assert any(" rows/s  p50 " in line for line in lines)
    assert lines[-2] == "lost         0"
    assert lines[-1].startswith("counts exact: ")
    assert out.count("counted      1,500 sentences, ") == 2
    assert any(line.startswith("  auto ") for line in lines)
    assert sum(line.startswith("counts exact: ") for line in lines) == 2
    (killed,) = (line for line in lines if line.startswith("a worker is killed: "))
    assert killed.endswith(" killed")
    (recovery,) = (line for line in lines if line.startswith("recovery "))
    assert " was lost; after " in recovery
    assert "WARN" not in out


def test_the_example_runs_and_its_results_alone_go_to_stdout(tailrace, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences()[:200]), encoding="utf-8")
    run = tailrace("run", EXAMPLES / "wordcount.py", "--master", "local[2]", "--workers", 2, TEXT=str(text))
    code, out, err = finished(run)
    assert code == 0, err
    pairs = [eval(line) for line in out.splitlines()]
    counts = collections.Counter(word for word, _ in pairs)
    assert counts.total() > 3000
    assert all(max(n for each, n in pairs if each == word) == counts[word] for word in list(counts)[:50])
    assert "completed 200  pending 0" in err.splitlines()[-1]
    assert "WARN" not in err


def test_ctrl_c_drains_what_was_read(tailrace, file, tmp_path):
    path = file("""
        import time
        import tailrace as tr

        def slow(number):
            time.sleep(0.002)
            return number

        flow = tr.Topology("endless")
        numbers = flow.source(tr.sources.rate(300))
        numbers.map(slow).sink(tr.sinks.json_lines("out"))
    """)
    run = tailrace("run", path, "--master", "local[2]", "--workers", 2, "--set", "progress_s=0.2")
    for line in run.stderr:
        if "completed" in line and "completed 0 " not in line:
            break
    os.killpg(run.pid, signal.SIGINT)
    code, _, err = finished(run)
    assert code == 130
    assert "Stopping: " in err
    read = int(err.splitlines()[-1].split("read ")[1].split()[0].replace(",", ""))
    written = [json.loads(line) for part in (tmp_path / "out").iterdir() for line in part.read_text().splitlines()]
    assert sorted(written) == list(range(read))


def test_a_failing_operator_ends_the_command_and_says_what_failed(tailrace, file):
    path = file("""
        import tailrace as tr

        def invert(number):
            return 1 / number

        flow = tr.Topology("failing")
        flow.source(tr.sources.items([2, 1, 0])).map(invert).sink(tr.sinks.discard())
    """)
    code, out, err = finished(tailrace("run", path, "--master", "local[2]", "--workers", 2))
    assert code == OperatorError.exit_code
    assert out == ""
    told = err[err.index("OperatorError: ") :]
    for part in ("'invert'", "ZeroDivisionError", "0"):
        assert part in told
    assert "Spark printed" not in err


def test_a_master_that_is_not_there_is_named(tailrace, file):
    path = file("""
        import tailrace as tr

        flow = tr.Topology("unreachable")
        flow.source(tr.sources.items([1])).sink(tr.sinks.discard())
    """)
    code, _, err = finished(tailrace("run", path, "--master", "mesh://nowhere", "--workers", 2))
    assert code == 6
    assert "SparkStartError: Spark did not start on mesh://nowhere" in err


def test_a_second_ctrl_c_ends_what_does_not_drain(tailrace, file):
    """An operator that never returns; the drain alone would take a minute."""
    path = file("""
        import time
        import tailrace as tr

        def stuck(number):
            time.sleep(3600)

        flow = tr.Topology("stuck")
        flow.source(tr.sources.rate(50)).shuffle().map(stuck).sink(tr.sinks.discard())
    """)
    run = tailrace("run", path, "--master", "local[2]", "--workers", 2, "--set", "progress_s=0.2")
    for line in run.stderr:
        if "rows/s" in line:
            break
    os.killpg(run.pid, signal.SIGINT)
    for line in run.stderr:
        if "Stopping: " in line:
            break
    os.killpg(run.pid, signal.SIGINT)
    code, _, err = finished(run)
    assert code == 130
    assert "Ending at once." in err
    assert "Stopped" not in err
