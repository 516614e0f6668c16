"""Builds and starts the Netty end: compiled by the Scala compiler that PySpark brings along, run on its jars.

Called by ``pair``. The classes are kept in the user's cache folder by Spark version and source text, so that only the
first bench pays for the compiler; without Java the bench goes on without this arm.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

from tailrace_bench.errors import PeerMissingError

SOURCE = Path(__file__).with_name("NettyEnd.scala")
_BUILD_S_MAX = 180
_JARS = Path(pyspark.__file__).parent / "jars"


def netty_command(role: str, address: str) -> list[str]:
    """What starts one end; a small heap and the quickest collector, since it makes next to no garbage."""
    classes = f"{build()}{os.pathsep}{_JARS}/*"
    # Netty reaches for direct buffers by itself where the runtime allows it.
    opened = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-Dio.netty.tryReflectionSetAccessible=true"]
    # What the machine itself has to say must not come between the answers.
    quiet = ["-XX:+DisplayVMOutputToStderr", "-Xlog:all=warning:stderr"]
    sized = ["-XX:+UseSerialGC", "-Xms256m", "-Xmx512m"]
    return [_java(), *sized, *quiet, *opened, "-cp", classes, "NettyEnd", role, address]


def netty_version() -> str:
    """The version of the jars."""
    found = sorted(_JARS.glob("netty-transport-[0-9]*.jar"))
    return found[-1].stem.removeprefix("netty-transport-").removesuffix(".Final") if found else ""


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found:
        raise PeerMissingError("Netty needs a Java runtime and none was found.", "Install Java 17 or set JAVA_HOME.")
    return found


@functools.cache
def build() -> Path:
    """Compile, unless an earlier bench has; the folder with the classes appears whole or not at all."""
    if not netty_version():
        raise PeerMissingError("Netty was expected among PySpark's jars, and it is not there.", "Use PySpark 4.")
    key = f"{pyspark.__version__}-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailrace"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = cache / f"netty-end-{key}"
    if target.exists():
        return target
    work = Path(tempfile.mkdtemp(dir=cache))
    try:
        _compile(work)
        if not target.exists():
            work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _compile(into: Path) -> None:
    command = [_java(), "-cp", f"{_JARS}/*", "scala.tools.nsc.Main", "-usejavacp", "-nowarn", "-d", str(into)]
    try:
        subprocess.run(  # noqa: S603 - the compiler of the installed Spark on our own source
            [*command, str(SOURCE)], check=True, capture_output=True, text=True, timeout=_BUILD_S_MAX
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PeerMissingError(
            f"The Netty end could not be compiled: {error}.", "Check the Java installation."
        ) from error
