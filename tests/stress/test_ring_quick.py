"""Short runs of every stress program of the ring; ``make stress`` runs them in full length."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the ring needs Linux")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the stress programs need a C compiler")
@pytest.mark.parametrize("part", ["processes", "sanitizers", "kills", "explore", "faults"])
def test_the_ring_holds(part):
    command = [sys.executable, "-m", "tests.stress.ring_stress", part, "--quick"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
