"""``tailrace doctor``: what this machine has of what Tailrace needs, in a second and without starting Spark."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from tailrace.hot import COMPILED
from tailrace.transport.ring import AVAILABLE, WHY_NOT
from tailrace.version import __version__

from .errors import DoctorError

_JAVA_LEAST = 17
_JAVA_TIMEOUT_S = 20
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - looked at, not written to
_VERSION = re.compile(r'version "(\d+)')


class Finding(NamedTuple):
    """One line of the report; ``need`` is what to do, empty where nothing is wrong."""

    name: str
    text: str
    need: str = ""


def doctor() -> list[Finding]:
    """Look at everything."""
    return [
        Finding("tailrace", __version__),
        Finding("python", f"{platform.python_version()} on {platform.system()}, {os.cpu_count()} cores"),
        Finding("pyspark", metadata.version("pyspark")),
        java(),
        ring(),
        workers(),
        shared_memory(),
    ]


def report(findings: list[Finding]) -> None:
    """Raise DoctorError if something is missing that is needed."""
    missing = [finding for finding in findings if finding.need]
    if missing:
        names = " and ".join(finding.name for finding in missing)
        raise DoctorError(f"Tailrace cannot run here for want of {names}.", " ".join(each.need for each in missing))


def java() -> Finding:
    """Ask the Java that Spark would take."""
    home = os.environ.get("JAVA_HOME")
    need = f"Install Java {_JAVA_LEAST} or newer (openjdk-{_JAVA_LEAST}-jre-headless), or set JAVA_HOME."
    command = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if command is None:
        return Finding("java", "none on PATH, and JAVA_HOME is not set", need)
    try:
        told = subprocess.run(  # noqa: S603 - the user's own Java, with a fixed argument
            [command, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("java", f"{command} does not start: {error}", need)
    found = _VERSION.search(told.stderr + told.stdout)
    if found is None:
        return Finding("java", f"{command} does not tell its version", need)
    major = int(found[1])
    return Finding("java", f"{major} ({command})", need if major < _JAVA_LEAST else "")


def ring() -> Finding:
    """See whether the C extension is there."""
    if AVAILABLE:
        return Finding("ring", "shared memory between the workers of a node")
    return Finding("ring", f"{WHY_NOT}; the workers of a node talk over Unix sockets, which is slower")


def workers() -> Finding:
    """See whether what runs around a user's function was compiled."""
    if COMPILED:
        return Finding("workers", "compiled")
    return Finding("workers", "plain Python: nothing was compiled here, a record takes up to twice as long")


def shared_memory() -> Finding:
    """See how much room the rings have."""
    if not _SHARED_MEMORY.is_dir():
        return Finding("shared memory", f"no {_SHARED_MEMORY}: workers of a node talk over Unix sockets")
    return Finding("shared memory", f"{shutil.disk_usage(_SHARED_MEMORY).free >> 20:,} MiB free in {_SHARED_MEMORY}")
