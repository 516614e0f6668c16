"""Modules beside a user's script travel by value; what is installed, and Python's own, travels by name."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HELPERS = "STEP = 5\ndef step(x):\n    return x + STEP\n"
SCRIPT = """
import json, pathlib, sys
import cloudpickle
import helpers, deep.inside
from installed import fixed
from helpers import step
from tailrace.topology.beside import ship_beside_script

def scaled(x):
    return 2 * step(x) + helpers.STEP + deep.inside.one()

ship_beside_script()
pathlib.Path(sys.argv[1]).write_bytes(cloudpickle.dumps(scaled))
by_name = [fixed, json.dumps, cloudpickle.dumps]
assert all(fn.__name__.encode() in cloudpickle.dumps(fn) and len(cloudpickle.dumps(fn)) < 200 for fn in by_name)
"""


@pytest.fixture
def script(tmp_path):
    folder = tmp_path / "job"
    (folder / "deep").mkdir(parents=True)
    packages = folder / "env" / "site-packages"
    packages.mkdir(parents=True)
    (folder / "helpers.py").write_text(HELPERS)
    (folder / "deep" / "__init__.py").touch()
    (folder / "deep" / "inside.py").write_text("def one():\n    return 1\n")
    (packages / "installed.py").write_text("def fixed():\n    return 0\n")
    path = folder / "my_job.py"
    path.write_text(f"import sys; sys.path.append({str(packages)!r})\n" + textwrap.dedent(SCRIPT))
    return path


def ran(*command):
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_functions_of_modules_beside_a_script_run_where_the_modules_are_not(script, tmp_path):
    shipped = str(tmp_path / "shipped")
    ran(sys.executable, str(script), shipped)
    assert ran(sys.executable, "-I", "-c", f"import pickle; print(pickle.load(open({shipped!r}, 'rb'))(3))") == "22\n"


def test_a_script_at_the_top_of_the_source_tree_ships_neither_of_the_packages():
    script = (
        "import pathlib, sys, cloudpickle, tailrace, tailrace_bench.reporting.rows\n"
        "from tailrace.topology import beside\n"
        "beside.ship_beside(pathlib.Path(sys.argv[1])); print(sorted(cloudpickle.list_registry_pickle_by_value()))"
    )
    assert ran(sys.executable, "-c", script, str(Path(__file__).parents[3])) == "[]\n"
