"""Where nothing was built, the same sources run as plain Python, without any extension."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace import hot

ROOT = Path(__file__).parent.parent.parent
OF_WORKERS = ("test_brain", "test_loop", "operations/test_moving", "execution/test_steps")
TESTS = ("acking", "receiving", *(f"worker/{name}.py" for name in OF_WORKERS))


@pytest.mark.skipif(not hot.NATIVE, reason="all tests run without extensions here")
def test_the_package_runs_without_anything_built(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src")}
    found = subprocess.run(
        [sys.executable, "-c", "from tailrace import hot; print(hot.NATIVE, hot.COMPILED)"],
        env=environment, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert found.stdout.split() == ["False", "False"]
    tests = [str(ROOT / "tests" / "unit" / name) for name in TESTS]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        env=environment, capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
