"""The doctor, with Javas made for it."""

from __future__ import annotations

import pytest

from tailrace.cli import doctor
from tailrace.cli.errors import DoctorError


@pytest.fixture
def fake_java(tmp_path, monkeypatch):
    def make(script):
        path = tmp_path / "bin" / "java"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        return path

    return make


@pytest.mark.parametrize(
    ("script", "says", "enough"),
    [
        ("""echo 'openjdk version "21.0.2" 2024-01-16' >&2""", "21 (", True),
        ("""echo 'openjdk version "17" 2021' >&2""", "17 (", True),
        ("""echo 'java version "1.8.0_402"' >&2""", "1 (", False),
        ("exit 3", "does not tell", False),
    ],
)
def test_javas(fake_java, script, says, enough):
    fake_java(script)
    found = doctor.java()
    assert says in found.text
    assert (not found.need) == enough


def test_no_java_at_all(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.java().need
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "does not start" in doctor.java().text


def test_what_is_missing_is_an_error(fake_java):
    fake_java("""echo 'java version "11.0.1"' >&2""")
    findings = doctor.doctor()
    assert [finding.name for finding in findings if finding.need] == ["java"]
    with pytest.raises(DoctorError, match="for want of java") as raised:
        doctor.report(findings)
    assert "Install Java 17" in raised.value.hint
    doctor.report([finding for finding in findings if not finding.need])


@pytest.mark.parametrize(("compiled", "says"), [(True, "compiled"), (False, "plain Python")])
def test_whether_workers_are_compiled_is_told_and_is_no_obstacle(monkeypatch, compiled, says):
    monkeypatch.setattr(doctor, "COMPILED", compiled)
    found = doctor.workers()
    assert found.text.startswith(says)
    assert not found.need


def test_a_missing_ring_is_told_and_is_no_obstacle(monkeypatch):
    monkeypatch.setattr(doctor, "AVAILABLE", False)
    monkeypatch.setattr(doctor, "WHY_NOT", "no compiler")
    found = doctor.ring()
    assert found.text.startswith("no compiler; ")
    assert not found.need
