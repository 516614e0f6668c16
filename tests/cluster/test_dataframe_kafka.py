"""Kafka -> topology -> Kafka against a real broker that is killed and started again half way: nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.kafka_broker import Broker, connector
from tests.maven import UnavailableError

from . import kafka_pipeline

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(900)]

DOWN_S = 3


def test_a_broker_killed_once_loses_no_row(tmp_path):
    try:
        jars = connector(tmp_path / "connector")
        broker = Broker(tmp_path / "broker")
    except UnavailableError as reason:
        pytest.skip(str(reason))
    broker.start()
    command = [sys.executable, kafka_pipeline.__file__, broker.address, ",".join(map(str, jars)), str(tmp_path)]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PYSPARK_PYTHON": sys.executable}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as pipeline:
        try:
            for line in pipeline.stdout:
                if line.strip() == "HALF":
                    broker.kill()
                    time.sleep(DOWN_S)
                    broker.start()
                last = line
        finally:
            pipeline.kill()
            broker.kill()
    found = json.loads(last)
    assert found["failed"] == []
    assert (found["missing"], found["foreign"]) == (0, 0)
    assert found["rows"] >= kafka_pipeline.ROWS
