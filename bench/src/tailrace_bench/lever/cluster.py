"""A standalone Spark on loopback: one master and workers that are distinct hosts to Spark.

Speculation refuses a copy on the host of the original, so it can only be measured with several host names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from .errors import LeverBenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

START_TIMEOUT_S = 120
HOSTS = tuple(f"127.0.0.{number}" for number in range(2, 6))
MASTER_HOST = "127.0.0.1"
LIGHT_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@contextlib.contextmanager
def standalone(cores: int = 4, memory: str = "4g") -> Iterator[str]:
    """Start a master and one worker per host; give the master's URL; stop all and remove their files at the end."""
    work = Path(tempfile.mkdtemp(prefix="tailrace-bench-"))
    port = _free_port()
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_daemon(work, MASTER_HOST, "master.Master", "--host", MASTER_HOST, "--port", str(port)))
        _wait_for(port, started[0])
        url = f"spark://{MASTER_HOST}:{port}"
        for host in HOSTS:
            size = ("--cores", str(cores), "--memory", memory, "--work-dir", str(work / host))
            started.append(_daemon(work, host, "worker.Worker", "--host", host, *size, url))
        yield url
    finally:
        for process in reversed(started):
            _stop(process)
        shutil.rmtree(work, ignore_errors=True)


def _daemon(work: Path, host: str, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    # Executors of all applications share a worker; a small heap for the daemons keeps the machine free for them.
    own = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": LIGHT_JVM,
    }
    log = (work / f"{name}-{host}.log").open("wb")
    arguments = (str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--webui-port", "0", *arguments)
    return subprocess.Popen(  # noqa: S603  Spark's own launcher
        arguments, env=os.environ | own, stdout=log, stderr=log, cwd=work, start_new_session=True
    )


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((MASTER_HOST, port), timeout=1):
            return
        time.sleep(0.2)
    raise LeverBenchError(
        "A Spark master was expected on loopback and did not come up.", "Check that Java 17 is installed."
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((MASTER_HOST, 0))
        return int(probe.getsockname()[1])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a daemon and what it started: each leads its own process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            continue
