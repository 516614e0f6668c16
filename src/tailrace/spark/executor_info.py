"""Where a Spark task runs: its executor and host, read off the command line of the JVM above it.

PySpark's TaskContext knows neither. A Python worker's parent is the daemon, whose parent is the executor's JVM; on a
driver in local mode that is the driver's own JVM and there is nothing to read.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from pyspark import TaskContext

from tailrace.program.boot import WorkerLocation

_ANCESTORS_MAX = 6


def find(slot: int) -> WorkerLocation:
    """Describe the task this code runs in."""
    context = TaskContext.get()
    launch = 1 + (context.taskAttemptId() if context is not None else 0)  # grows over the whole application
    options = _executor_options()
    return WorkerLocation(
        slot, launch, options.get("--executor-id", "driver"), _bindable(options.get("--hostname", ""))
    )


def _executor_options() -> dict[str, str]:
    """The options of the nearest ancestor that is an executor's JVM; empty if there is none or no /proc."""
    pid = os.getpid()
    for _ in range(_ANCESTORS_MAX):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return {}
        if "--executor-id" in words:
            return {
                words[i]: words[i + 1] for i in range(len(words) - 1) if words[i] in {"--executor-id", "--hostname"}
            }
        pid = int(status.rpartition(")")[2].split()[1])
    return {}


def _bindable(host: str) -> str:
    """The executor's host if a listener can be bound to it here, else empty: then the address towards the driver is."""
    if not host:
        return ""
    try:
        with socket.create_server((host, 0)):
            return host
    except OSError:
        return ""
