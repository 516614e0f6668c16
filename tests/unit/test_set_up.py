"""What `make demo` and `make test` install is what pyproject.toml asks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def needs(*extras):
    command = [sys.executable, str(ROOT / ".ci" / "needs"), *extras]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return found.stdout.splitlines()


def test_the_demo_needs_no_tool_and_the_tests_need_all_extras():
    run, dev = needs(), needs("dev")
    assert dev[: len(run)] == run
    named = {need.split(">")[0] for need in dev}
    assert {"pyspark", "msgspec"} <= {need.split(">")[0] for need in run}
    assert {"pytest", "pyarrow", "pymetis"} <= named - {need.split(">")[0] for need in run}
    assert not [need for need in dev if need.startswith("tailrace")]
