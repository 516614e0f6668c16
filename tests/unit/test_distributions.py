"""What the two distributions hold: the runtime's has no bench, no paper and no claim, and works without them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tailrace.version import __version__

ROOT = Path(__file__).parents[2]
BUILD = "from setuptools import setup; setup()"
#: Stands in for an environment that has the runtime only: whoever asks for the benches is refused.
ALONE = "import sys; sys.modules['tailrace_bench'] = None\n"


def built(project: Path, into: Path) -> Path:
    """Let setuptools copy what it would put into the wheel, but for the extensions."""
    copy, out = into / "project", into / "out"
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        if (project / name).exists():
            copy.mkdir(exist_ok=True)
            shutil.copy(project / name, copy)
    skipped = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(project / "src", copy / "src", ignore=skipped)
    command = [sys.executable, "-c", BUILD, "--quiet", "build_py", "--build-lib", str(out)]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    return built(ROOT, tmp_path_factory.mktemp("runtime"))


@pytest.fixture(scope="module")
def benches(tmp_path_factory):
    return built(ROOT / "bench", tmp_path_factory.mktemp("benches"))


def files(folder: Path, top: str) -> set[str]:
    assert [path.name for path in folder.iterdir()] == [top]
    return {path.relative_to(folder / top).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_runtime_has_no_bench_no_paper_and_no_claim(runtime):
    found = files(runtime, "tailrace")
    assert {"worker/brain.py", "simulate/cli.py", "lever/explain/report.py", "data/wiki.txt", "py.typed"} <= found
    assert not {name for name in found if "bench" in name or "papers" in name or name.endswith("claims.toml")}


def test_the_benches_have_their_data_and_nothing_of_the_runtime(benches):
    found = files(benches, "tailrace_bench")
    assert {"registry.py", "py.typed", "ring/NettyEnd.scala", "papers/claims.toml", "lever/main.py"} <= found


def test_both_have_one_version():
    assert metadata.version("tailrace") == metadata.version("tailrace-bench") == __version__
    assert f"tailrace[plots]=={__version__}" in metadata.requires("tailrace-bench")


def call(runtime: Path, script: str, *words: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ALONE + script, *words], cwd=cwd, capture_output=True, text=True, check=False,
        timeout=120, env=os.environ | {"PYTHONPATH": str(runtime)},
    )  # fmt: skip
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def test_every_module_of_the_runtime_does_without_the_benches(runtime, tmp_path):
    names = sorted(
        ".".join(path.relative_to(runtime).with_suffix("").parts).removesuffix(".__init__")
        for path in (runtime / "tailrace").rglob("*.py")
    )
    script = "import importlib, sys\nfor name in sys.argv[1:]: print(importlib.import_module(name).__file__)"
    found = call(runtime, script, *names, cwd=tmp_path).split()
    assert len(found) == len(names) > 200
    assert all(file.startswith(str(runtime)) for file in found)


def test_the_commands_of_the_runtime_do_without_the_benches(runtime, tmp_path):
    operators = [{"id": "a", "parallelism": 2}, {"id": "b", "parallelism": 2}]
    drawn = {"operators": operators, "edges": [{"src": "a", "dst": "b"}]}
    (tmp_path / "flow.json").write_text(json.dumps(drawn))
    script = "from tailrace.cli.main import main; main()"
    for words in (("demo", "--help"), ("run", "--help"), ("simulate", "--help"), ("lever", "explain", "--help")):
        assert f"Usage: tailrace {' '.join(words[:-1])}" in call(runtime, script, *words, cwd=tmp_path)
    assert "4 tasks, 4 edges" in call(runtime, script, "place", "flow.json", "--nodes", "2x1", cwd=tmp_path)
