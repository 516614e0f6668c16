"""Jars for tests that need a server written in Java; Maven fetches them."""

from __future__ import annotations

import shutil
import subprocess

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tailrace.test</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{0}</dependencies></project>
"""
DEPENDENCY = "<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></dependency>"


class UnavailableError(Exception):
    """The jars cannot be had here."""


def maven(folder, *arguments):
    """Run Maven in a folder."""
    command = shutil.which("mvn")
    if command is None:
        raise UnavailableError("Maven is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    command = [command, "-q", "-B", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise UnavailableError(f"Maven cannot get what is needed: {' '.join(arguments)}")


def fetch(folder, *artifacts):
    """Copy artifacts and what they need into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    dependencies = "".join(DEPENDENCY.format(*artifact.split(":")) for artifact in artifacts)
    (folder / "pom.xml").write_text(POM.format(dependencies))
    maven(folder, "dependency:copy-dependencies", "-DoutputDirectory=jars", "-DincludeScope=runtime")
    return sorted((folder / "jars").glob("*.jar"))
