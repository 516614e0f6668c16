"""Finds the jar with the JVM side of Lever that fits the installed Spark, or builds it.

Called by the session module before the JVM starts. The package carries jars for the tested Spark minors; for others
the sources, also in the package, are compiled with the Scala compiler that PySpark brings along, once per Spark version
and source text, into the user's cache folder or a temporary one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from importlib import resources
from pathlib import Path

import pyspark

from .errors import ShimError

BUILD_TIMEOUT_S = 180


def find_jar() -> Path:
    """Return a jar that fits the installed Spark."""
    shipped = Path(str(resources.files("tailrace.lever"))) / "jars" / jar_name()
    return shipped if shipped.exists() else _cached()


def jar_name() -> str:
    """Name by Spark minor and source text: a jar of other sources never fits."""
    minor = ".".join(pyspark.__version__.split(".")[:2])
    return f"tailrace-lever-spark{minor}-{_source_hash()}.jar"


def sources() -> list[Path]:
    """Return the Scala files, in a checkout from ``jvm/`` and in an installed package from beside the jars."""
    here = Path(str(resources.files("tailrace.lever")))
    checkout = here.parents[2] / "jvm" / "src"
    for folder in (here / "jars" / "src", checkout):
        found = sorted(folder.glob("*.scala"))
        if found:
            return found
    raise ShimError(
        f"The Scala sources of Lever were expected in {here / 'jars' / 'src'} and are not there.",
        "Install the tailrace package again.",
    )


def build(target: Path) -> Path:
    """Compile the sources against the installed Spark; the jar appears whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tailrace-lever-") as work:
        classes = Path(work) / "classes"
        classes.mkdir()
        _compile(classes)
        unfinished = target.with_suffix(f".{os.getpid()}.part")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as jar:
            for path in sorted(classes.rglob("*.class")):
                # A fixed time stamp: the same sources give the same jar.
                jar.writestr(zipfile.ZipInfo(str(path.relative_to(classes)), (1980, 1, 1, 0, 0, 0)), path.read_bytes())
        unfinished.replace(target)
    return target


def _source_hash() -> str:
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _cached() -> Path:
    name = f"{pyspark.__version__}-{jar_name()}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailrace"
    for folder in (cache, Path(tempfile.gettempdir()) / f"tailrace-{os.getuid()}"):
        if _owned(folder):
            target = folder / name
            return target if target.exists() else build(target)
    raise ShimError(
        "A folder to build Lever's jar in was expected, and neither the cache nor the temporary folder can be written.",
        "Set XDG_CACHE_HOME to a folder of your own.",
    )


def _owned(folder: Path) -> bool:
    """Whether the folder can be written and belongs to nobody else, since its jar will be run."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid()


def _compile(classes: Path) -> None:
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home) / "bin" / "java") if java_home else shutil.which("java")
    if not java:
        raise ShimError("A Java runtime was expected and none was found.", "Install Java 17 or set JAVA_HOME.")
    spark_jars = Path(pyspark.__file__).parent / "jars" / "*"
    command = [java, "-cp", str(spark_jars), "scala.tools.nsc.Main", "-usejavacp", "-nowarn", "-d", str(classes)]
    try:
        subprocess.run(  # noqa: S603  the compiler of the installed Spark on our own sources
            [*command, *map(str, sources())], check=True, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
        )
    except subprocess.CalledProcessError as error:
        raise ShimError(
            f"Lever's JVM side does not compile against Spark {pyspark.__version__}: {error.stdout[:500]}",
            "Use a tested Spark version (see docs/lever.md) or run without Lever.",
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ShimError(f"Lever's JVM side could not be compiled: {error}", "Check the Java installation.") from error
