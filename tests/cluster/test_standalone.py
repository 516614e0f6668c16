"""A standalone master with two workers on host names of their own runs the word count on both."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pyspark
import pytest
from tests import sparks
from tests.queries import PATIENT, assert_exact, ended, ending, plain_count, text_path, until, word_count

import tailrace as tr

pytestmark = pytest.mark.spark
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HOSTS = ["127.0.0.2", "127.0.0.3"]
LIGHT = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@pytest.fixture
def master(tmp_path):
    """Start the master and its workers; gives the master's address."""
    started = []

    def start(kind, host, *args):
        log = tmp_path / f"{kind}-{host}.log"
        environment = {**os.environ, "SPARK_LOCAL_IP": host, **LIGHT}
        environment.pop("SPARK_LOCAL_HOSTNAME", None)
        with log.open("wb") as into:
            command = [SPARK_CLASS, f"org.apache.spark.deploy.{kind.lower()}.{kind}", "--host", host]
            command += ["--port", "0", "--webui-port", "0", *args]
            started.append(subprocess.Popen(command, env=environment, stdout=into, stderr=into))
        return log

    try:
        log = start("Master", "127.0.0.1")
        found = []
        until(lambda: found.extend(re.findall(r"spark://127\.0\.0\.1:\d+", log.read_text())) or found, "a master")
        options = ["--cores", "2", "--memory", "1g", found[0]]
        logs = [start("Worker", host, "--work-dir", tmp_path / host, *options) for host in HOSTS]
        until(lambda: all("Successfully registered" in each.read_text() for each in logs), "workers of the master")
        yield found[0]
        sparks.stop()
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)


def test_tasks_are_spread_over_both_hosts(master):
    flow, out = word_count(text_path(), splitters=4, counters=4)
    spark = sparks.session(master, {"spark.executor.cores": "2", "spark.executor.memory": "768m"})
    settings = tr.Settings(progress_s=0.2, **PATIENT)
    with ending(tr.start(flow, spark, workers=4, settings=settings)) as query:
        members = query._brain.members.values()
        hosts = [member.peer.host for member in members]
        ended(query)
        # Each host's workers have done part of the work.
        worked = {member.peer.host for member in members if any(row.tuples_in for row in member.report.tasks)}
    assert sorted(hosts) == [HOSTS[0]] * 2 + [HOSTS[1]] * 2
    assert worked == set(HOSTS)
    assert_exact(out.values, plain_count(text_path()))
