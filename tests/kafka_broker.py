"""A real Kafka broker for tests: Maven fetches its jars, a Java runtime runs them (KRaft, one node, loopback)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time

import pyspark
from tests.maven import UnavailableError, fetch, maven

BROKER = "org.apache.kafka:kafka_2.13:3.9.1"
START_TIMEOUT_S = 120

PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
num.partitions=3
"""


def connector(folder):
    """The Kafka source of this Spark, or of the minor before it where this one's is not published."""
    major, minor = map(int, pyspark.__version__.split(".")[:2])
    older = [f"{major}.{number}.0" for number in range(minor, -1, -1)]
    # Alone, not with what they need: that is Spark itself, which is there already.
    _newest(folder, "org.apache.spark:spark-sql-kafka-0-10_2.13", [pyspark.__version__, *older[:2]])
    # Only asked whether the broker wants tokens, which it does not; its interface has not changed since 4.0.
    _newest(folder, "org.apache.spark:spark-token-provider-kafka-0-10_2.13", [pyspark.__version__, *older])
    _newest(folder, "org.apache.kafka:kafka-clients", ["3.9.1"])
    _newest(folder, "org.apache.commons:commons-pool2", ["2.12.1"])
    return sorted(folder.glob("*.jar"))


def _newest(folder, artifact, versions):
    for version in dict.fromkeys(versions):
        with contextlib.suppress(UnavailableError):
            maven(folder, "dependency:copy", f"-Dartifact={artifact}:{version}", f"-DoutputDirectory={folder}")
            return
    raise UnavailableError(f"Maven cannot get {artifact} of version {' or '.join(versions)}")


class Broker:
    """A broker that can be killed and started again on the same port and logs."""

    def __init__(self, folder):
        jars = fetch(folder, BROKER)
        self._folder, self._port, controller = folder, _free_port(), _free_port()
        self._properties = folder / "server.properties"
        self._properties.write_text(PROPERTIES.format(port=self._port, controller=controller, logs=folder / "logs"))
        self._java = ["java", "-Xmx384m", "-cp", os.pathsep.join(map(str, jars))]
        identity = "AAAAAAAAQACAAAAAAAAAAA"
        store = [*self._java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._properties)]
        subprocess.run(store, check=True, capture_output=True, timeout=60)
        self._process = None
        self.address = f"127.0.0.1:{self._port}"

    def start(self):
        """Start it and wait until it takes connections."""
        with (self._folder / "broker.log").open("ab") as log:
            command = [*self._java, "kafka.Kafka", str(self._properties)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                break
            time.sleep(0.2)

    def kill(self):
        """Kill it, as a crash would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def broker(folder):
    """Run a broker; give its address."""
    running = Broker(folder)
    running.start()
    try:
        yield running.address
    finally:
        running.kill()


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
