"""The temporary folder of apply goes on failure, with its rows handed over, and after a program that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tailrace.spark.dataframe.apply_folder import ApplyFolder, sweep
from tailrace.spark.errors import NotApplicableError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def session(master):
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master))


class Rows:
    """A DataFrame that reads the folder when it is asked to."""

    def __init__(self, folder):
        self.folder, self.read = folder, None

    def localCheckpoint(self, *, eager):  # noqa: N802 - PySpark's name
        assert eager
        self.read = Path(self.folder, "rows").read_text()
        return self


def test_it_goes_when_what_writes_to_it_fails(elsewhere):
    folder = ApplyFolder(session("local-cluster[2,1,512]"))
    Path(folder.path, "half").write_text("x")
    with pytest.raises(KeyboardInterrupt), folder.held():
        raise KeyboardInterrupt
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]"])
def test_rows_are_read_before_it_goes(elsewhere, master):
    folder = ApplyFolder(session(master))
    with folder.held() as path:
        Path(path, "rows").write_text("rows")
        assert folder.handed_over(Rows(path)).read == "rows"
    assert list(elsewhere.iterdir()) == []


def test_a_cluster_s_lasts_as_long_as_the_program(elsewhere):
    program = (
        "import sys, types; from pathlib import Path; from tailrace.spark.dataframe.apply_folder import ApplyFolder\n"
        "spark = types.SimpleNamespace(sparkContext=types.SimpleNamespace(master='local-cluster[2,1,512]'))\n"
        "folder = ApplyFolder(spark)\n"
        "with folder.held() as path: folder.handed_over(None)\n"
        "print(Path(path).is_dir())"
    )
    env = os.environ | {"TMPDIR": str(elsewhere)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert list(elsewhere.iterdir()) == []


def test_what_a_killed_program_left_behind_is_swept_and_nothing_else(elsewhere):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    names = f"tailrace-apply-{gone.pid}-abc", f"tailrace-apply-{os.getpid()}-abc", "tailrace-apply-mine", "other"
    for name in names:
        (elsewhere / name).mkdir()
    sweep()
    assert {path.name for path in elsewhere.iterdir()} == set(names[1:])


def test_nodes_that_do_not_see_it_are_named():
    with pytest.raises(NotApplicableError, match="all nodes see"):
        ApplyFolder(session("spark://somewhere:7077"))
