"""The commands from the outside: exit codes, and what a user reads when something is wrong."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tailrace.cli import main as cli
from tailrace.errors import TailraceError
from tailrace.version import __version__


@pytest.fixture
def tailrace(capsys):
    def call(*args):
        with pytest.raises(SystemExit) as left:
            cli.main(list(args))
        told = capsys.readouterr()
        return left.value.code, told.out, told.err

    return call


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text, name="mine.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    return write


FLOW = """
    import tailrace as tr
    flow = tr.Topology("mine")
    flow.source(tr.sources.items([1])).map(abs).sink(tr.sinks.discard())
"""


def test_the_version_is_printed(tailrace):
    assert tailrace("--version") == (0, f"tailrace {__version__}\n", "")


def test_help_names_every_command(tailrace):
    code, out, _ = tailrace("--help")
    assert code == 0
    for command in ("demo", "run", "doctor", "place", "lever", "bench"):
        assert f"\n  {command} " in out


def test_help_starts_no_spark_and_loads_no_other_room():
    code = (
        "import sys\nfrom tailrace.cli.main import main\n"
        "try: main(['--help'])\n"
        "finally: print(sorted({'pyspark', 'tailrace_bench', 'tailrace.lever.cli', 'tailrace.placement.command.cli'}"
        " & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.splitlines()[-1] == "[]"


def test_the_commands_of_other_rooms_get_their_own_arguments(tailrace):
    for command, option in (("place", "--nodes"), ("lever explain", "--plan"), ("bench", "--quick")):
        code, out, _ = tailrace(*command.split(), "--help")
        assert code == 0
        assert f"Usage: tailrace {command} [OPTIONS]" in out
        assert f"  {option}" in out


def test_an_error_of_another_room_keeps_its_name_and_exit_code(tailrace, tmp_path):
    code, _, err = tailrace("place", str(tmp_path / "none.json"))
    assert code == 5
    assert err.startswith("TopologyFileError: There is no file ")


@pytest.mark.parametrize(
    ("options", "name", "says"),
    [
        (["--policy", "placement=metiss"], "ConfigError", "'metis'"),
        (["--policy", "placment=metis"], "ConfigError", "'placement'"),
        (["--policy", "metis"], "ConfigError", "KEY=VALUE"),
        (["--policy", "replay=fixed:soon"], "ConfigError", "positive number of seconds"),
        (["--set", "max_pendin=3"], "ConfigError", "'max_pending'"),
        (["--set", "max_pending=-3"], "ConfigError", "must be a positive"),
        (["--set", "max_pending=1.5"], "ConfigError", "found '1.5'"),
    ],
)
def test_bad_options_are_named_before_spark_starts(tailrace, file, options, name, says):
    code, out, err = tailrace("run", file(FLOW), *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"{name}: ")
    assert says in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("x = 1", "NoFlowError", "found none"),
        ("flow = 3", "NoFlowError", "found builtins.int"),
        ("x = = 1", "FlowSyntaxError", "line 1"),
        ("\nx = 1 / 0", "FlowImportError", "line 2, raised ZeroDivisionError"),
        ("import nowhere_to_be_found", "FlowImportError", "nowhere_to_be_found"),
        ("raise SystemExit(4)", "FlowImportError", "SystemExit"),
        ("import tailrace as tr\na = tr.Topology('a')\nb = tr.Topology('b')", "SeveralFlowsError", "found 2: a, b"),
        ("import tailrace as tr\nflow = tr.Topology('a')", "EmptyTopologyError", "source"),
        ("import tailrace as tr\ntr.sources.rate(0)", "ConnectorOptionError", "per_s"),
    ],
)
def test_bad_files_are_named(tailrace, file, text, name, says):
    code, out, err = tailrace("run", file(text))
    assert (code, out) == (2, "")
    assert err.startswith(f"{name}: ")
    assert says in err
    assert "Traceback" not in err


def test_a_file_that_is_not_there(tailrace, tmp_path):
    assert "found nothing there" in tailrace("run", str(tmp_path / "none.py"))[2]
    assert "found a folder there" in tailrace("run", str(tmp_path))[2]


def test_a_name_that_is_not_there_gets_the_nearest(tailrace, file):
    code, _, err = tailrace("run", file(FLOW) + ":flwo")
    assert code == 2
    assert "Did you mean 'flow'?" in err


@pytest.mark.parametrize("place", ["before", "behind"])
def test_debug_shows_the_trace_and_keeps_the_exit_code(tailrace, file, place):
    args = ["run", file("x = 1 / 0")]
    code, _, err = tailrace(*(["--debug", *args] if place == "before" else [*args, "--debug"]))
    assert code == 2
    assert "Traceback (most recent call last)" in err
    assert "ZeroDivisionError" in err
    assert "FlowImportError: " in err


def test_a_mistake_of_ours_is_told_without_a_trace(tailrace, monkeypatch):
    def broken():
        raise RuntimeError("no such luck")

    monkeypatch.setattr("tailrace.cli.doctor.doctor", broken)
    code, _, err = tailrace("doctor")
    assert code == cli.EXIT_UNEXPECTED
    assert err.startswith("Unexpected RuntimeError: no such luck\n")
    assert "Traceback" not in err


def test_an_error_without_a_hint_prints_one_line(tailrace, monkeypatch):
    class BareError(TailraceError):
        exit_code = 9

    def bare():
        raise BareError("Just this.")

    monkeypatch.setattr("tailrace.cli.doctor.doctor", bare)
    assert tailrace("doctor") == (9, "", "BareError: Just this.\n")


def test_ctrl_c_exits_with_130(tailrace, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("tailrace.cli.doctor.doctor", interrupted)
    assert tailrace("doctor")[0] == 130


def test_without_java_nothing_is_started(tailrace, file, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for command in (["demo"], ["run", file(FLOW)]):
        code, _, err = tailrace(*command)
        assert code == 6
        assert "JavaMissingError: " in err
        assert "Traceback" not in err


@pytest.mark.parametrize("options", [["--rate", "0"], ["--seconds", "-1"], ["--workers", "0"], ["--workers", "x"]])
def test_numbers_out_of_range_are_refused(tailrace, options):
    code, _, err = tailrace("demo", *options)
    assert code == 2
    assert options[0] in err
