"""Finds the jar with the JVM side of Lever that fits the installed Spark, or builds it.

Called by the session module before the JVM starts. The package carries jars for the tested Spark minors, each with the
Scala sources it was made from; for other minors these are compiled with the Scala compiler that PySpark brings along,
once per Spark version and source text, into the user's cache folder or a temporary one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

from .errors import ShimError

BUILD_TIMEOUT_S = 180
REASON_CHARS_MAX = 1500
JARS = Path(__file__).parent / "jars"
CHECKOUT = Path(__file__).parents[3] / "jvm" / "src"
"""Where the sources are in a checkout of the project; absent in an installed package."""
IN_JAR = "tailrace-lever-sources/"


def find_jar() -> Path:
    """Return a jar that fits the installed Spark and, in a checkout, the sources as they are now."""
    shipped = JARS / jar_name()
    if shipped.exists() and sources_in(shipped) == sources():
        return shipped
    return _cached()


def jar_name() -> str:
    """Name a jar by the Spark minor that it was built for."""
    return f"tailrace-lever-spark{'.'.join(pyspark.__version__.split('.')[:2])}.jar"


def sources() -> dict[str, str]:
    """Return the Scala files by name, from the checkout or from a shipped jar."""
    found = {path.name: path.read_text() for path in sorted(CHECKOUT.glob("*.scala"))}
    for jar in sorted(JARS.glob("*.jar")):
        found = found or sources_in(jar)
    if not found:
        raise ShimError(f"A jar of Lever was expected in {JARS} and none is there.", "Install tailrace again.")
    return found


def sources_in(jar: Path) -> dict[str, str]:
    """Return the Scala files that a jar was made from."""
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.startswith(IN_JAR)]
        return {name.removeprefix(IN_JAR): archive.read(name).decode() for name in sorted(names)}


def build(target: Path) -> Path:
    """Compile the sources against the installed Spark; the jar appears whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    texts = sources()
    with tempfile.TemporaryDirectory(prefix="tailrace-lever-") as folder:
        work = Path(folder)
        for name, text in texts.items():
            (work / name).write_text(text)
        classes = work / "classes"
        classes.mkdir()
        _compile([work / name for name in texts], classes)
        content = {str(path.relative_to(classes)): path.read_bytes() for path in sorted(classes.rglob("*.class"))}
    content |= {IN_JAR + name: text.encode() for name, text in texts.items()}
    unfinished = target.with_suffix(f".{os.getpid()}.part")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, data in content.items():
            # A fixed time stamp: the same sources give the same jar.
            jar.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    unfinished.replace(target)
    return target


def _cached() -> Path:
    text = "\0".join(f"{name}\0{text}" for name, text in sources().items())
    name = f"{pyspark.__version__}-{hashlib.sha256(text.encode()).hexdigest()[:12]}-{jar_name()}"
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
    """Tell whether the folder can be written and belongs to nobody else, since its jar will be run."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid()


def _compile(files: list[Path], classes: Path) -> None:
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home) / "bin" / "java") if java_home else shutil.which("java")
    if not java:
        raise ShimError("A Java runtime was expected and none was found.", "Install Java 17 or set JAVA_HOME.")
    spark_jars = Path(pyspark.__file__).parent / "jars" / "*"
    command = [java, "-cp", str(spark_jars), "scala.tools.nsc.Main", "-usejavacp", "-nowarn", "-d", str(classes)]
    try:
        subprocess.run(  # noqa: S603  the compiler of the installed Spark on our own sources
            [*command, *map(str, files)], check=True, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
        )
    except subprocess.CalledProcessError as error:
        raise ShimError(
            f"Lever's JVM side does not compile against Spark {pyspark.__version__} "
            f"(exit code {error.returncode}): {_reason(error.stderr, error.stdout)}",
            "Use a tested Spark version (see docs/lever.md) or run without Lever.",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ShimError(
            f"Lever's JVM side was expected to compile within {BUILD_TIMEOUT_S} s and did not.",
            "Try again while the machine is less busy; the jar is built once and kept.",
        ) from error
    except OSError as error:
        raise ShimError(f"Lever's JVM side could not be compiled: {error}", "Check the Java installation.") from error


def _reason(stderr: str, stdout: str) -> str:
    """What the compiler said: scalac writes errors to stderr, and the first ones say most."""
    said = (stderr.strip() or stdout.strip()).replace("\r\n", "\n")
    if not said:
        return "the compiler gave no reason"
    return said if len(said) <= REASON_CHARS_MAX else f"{said[:REASON_CHARS_MAX]} ... ({len(said):,} characters in all)"
