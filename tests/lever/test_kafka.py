"""Kafka's offsets are cut natively: the same rows, offsets and counts with and without Lever, from a real broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kafka_broker import broker, connector
from tests.maven import UnavailableError

from . import kafka_query

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def test_kafka_rows_are_the_same_and_are_cut_by_offsets(tmp_path):
    try:
        jars = connector(tmp_path / "connector")
        with broker(tmp_path / "broker") as address:
            command = [sys.executable, kafka_query.__file__, address, ",".join(map(str, jars)), str(tmp_path)]
            source = str(Path(__file__).parents[2] / "src")
            env = os.environ | {"PYTHONPATH": source, "PYSPARK_PYTHON": sys.executable}
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    except UnavailableError as reason:
        pytest.skip(str(reason))
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["on"] == found["off"]
    assert sum(found["on"]["rows"].values()) == kafka_query.ROWS
    assert found["failures"] == {}
    # Three partitions over two executors can be even only if one of them is cut.
    assert all(share == pytest.approx(0.5, abs=0.01) for batch in found["shares"] for share in batch)
