"""Which topology of a file is taken, and that what a file defines can run where the file is not."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import cloudpickle
import pytest

from tailrace.cli.load import load_flow, split_target

HEAD = "import tailrace as tr\n"
DRAW = "{0} = tr.Topology('{0}')\n"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text, name="mine.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    return write


def test_flow_is_the_name_looked_for_first(file):
    assert load_flow(file(HEAD + DRAW.format("other") + DRAW.format("flow"))).name == "flow"


def test_the_only_topology_is_found_under_any_name(file):
    assert load_flow(file(HEAD + DRAW.format("one") + "same = one\n")).name == "one"


def test_a_name_chooses_among_several(file):
    assert load_flow(file(HEAD + DRAW.format("a") + DRAW.format("b")) + ":b").name == "b"


@pytest.mark.parametrize("name", ["flow", "make"])
def test_a_function_is_called(file, name):
    path = file(HEAD + f"def {name}():\n    return tr.Topology('made')\n")
    assert load_flow(path if name == "flow" else f"{path}:{name}").name == "made"


def test_a_file_named_like_a_standard_module_does_not_replace_it(file):
    import random

    load_flow(file(HEAD + DRAW.format("flow"), "random.py"))
    assert sys.modules["random"] is random


def test_the_guard_keeps_a_script_from_starting_itself(file):
    guarded = "if __name__ == '__main__':\n    raise RuntimeError\n"
    assert load_flow(file(HEAD + DRAW.format("flow") + guarded)).name == "flow"


def test_a_colon_in_a_file_name_is_no_separator(tmp_path):
    odd = tmp_path / "a:b"
    odd.touch()
    assert split_target(str(odd)) == (odd, "")
    assert split_target("x.py:flow") == (Path("x.py"), "flow")
    assert split_target("x:y.py") == (Path("x:y.py"), "")


def test_functions_of_the_file_and_of_modules_beside_it_travel_by_value(file, tmp_path):
    """Another process, which has neither file on its path, calls them."""
    file("STEP = 5\ndef step(x):\n    return x + STEP\n", "cli_helper.py")
    flow = load_flow(
        file(
            HEAD
            + "from cli_helper import step\nFACTOR = 2\n"
            + "def scale(x):\n    return FACTOR * step(x)\n"
            + DRAW.format("flow")
            + "flow.source(tr.sources.items([1])).map(scale).sink(tr.sinks.discard())\n"
        )
    )
    (tmp_path / "shipped").write_bytes(cloudpickle.dumps(flow.operators["scale"].fn))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))(3))"
    command = [sys.executable, "-I", "-c", code, str(tmp_path / "shipped")]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert found.stdout == "16\n", found.stderr
