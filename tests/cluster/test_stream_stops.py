"""Stopping a query on a streaming DataFrame prints no stack, whether its batch may end or is cut short."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import stream_stops

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
ROUNDS = 2


def test_stops_are_quiet_and_a_batch_is_let_end_or_read_again(tmp_path):
    command = [sys.executable, stream_stops.__file__, str(tmp_path), str(ROUNDS)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told, over, _ = done.stderr.partition(stream_stops.OVER)
    assert over
    for sign in ("StackOverflowError", "Traceback", "\tat ", "Exception in thread", "terminated with error"):
        assert sign not in told, told[:3000]
    stops = json.loads(done.stdout.splitlines()[-1])
    assert [stop["kind"] for stop in stops] == [kind for kind, *_ in stream_stops.STOPS] * ROUNDS
    for stop in stops:
        assert stop["error"] == ""
        assert stop["rows"] == stop["distinct"] > 0
        if stop["kind"] == "ended":
            assert len(stop["noted"]) >= 2, "the batch whose rows came was not let end"
        else:
            assert stop["begun"][-1] not in stop["noted"], "a batch that was cut short counts as read"
