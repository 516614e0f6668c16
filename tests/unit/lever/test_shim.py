"""The jar that the package ships fits the sources; without one it can be built."""

from __future__ import annotations

import pytest

from tailrace.lever import shim
from tailrace.lever.errors import ShimError


@pytest.mark.skipif(not shim.CHECKOUT.is_dir(), reason="an installed package has no other sources to compare with")
def test_every_shipped_jar_was_made_from_the_sources():
    jars = list(shim.JARS.glob("*.jar"))
    assert jars
    for jar in jars:
        assert shim.sources_in(jar) == shim.sources()


def test_an_installed_package_finds_its_sources_in_the_jar(monkeypatch, tmp_path):
    expected = shim.sources()
    monkeypatch.setattr(shim, "CHECKOUT", tmp_path / "absent")
    assert shim.sources() == expected


def test_another_spark_minor_is_built_for_once_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shim, "jar_name", lambda: "tailrace-lever-spark9.9.jar")
    monkeypatch.setattr(shim, "_compile", lambda files, classes: (classes / "Lever.class").write_bytes(b"\xca\xfe"))
    built = shim.find_jar()
    assert shim.sources_in(built) == shim.sources()
    written_ns = built.stat().st_mtime_ns
    assert shim.find_jar() == built
    assert built.stat().st_mtime_ns == written_ns
    assert [path.name for path in built.parent.iterdir()] == [built.name]


def test_no_java_is_a_named_error(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ShimError, match="Java runtime"):
        shim.build(tmp_path / "out.jar")


def fake_java(monkeypatch, tmp_path, script):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def test_a_compiler_error_carries_what_scalac_wrote_to_stderr(monkeypatch, tmp_path):
    fake_java(monkeypatch, tmp_path, "echo 'warming up'\necho 'Units.scala:7: value is not a member' >&2\nexit 3")
    with pytest.raises(ShimError, match=r"Units\.scala:7: value is not a member") as caught:
        shim.build(tmp_path / "out.jar")
    assert "exit code 3" in caught.value.message
    assert "Spark version" in caught.value.hint


def test_a_long_reason_is_cut_and_an_empty_one_is_said(monkeypatch, tmp_path):
    fake_java(
        monkeypatch, tmp_path, "[ -e again ] && exit 1; touch again; yes 'error: no such type' | head -999 >&2; exit 1"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ShimError, match=r"no such type[^$]*\.\.\. \(19,979 characters in all\)") as caught:
        shim.build(tmp_path / "out.jar")
    assert len(caught.value.message) < 2 * shim.REASON_CHARS_MAX
    with pytest.raises(ShimError, match="gave no reason"):
        shim.build(tmp_path / "out.jar")


def test_the_real_compiler_s_reason_is_carried(monkeypatch, tmp_path):
    monkeypatch.setattr(shim, "sources", lambda: {"Broken.scala": 'object Broken { val n: Int = "one" }\n'})
    with pytest.raises(ShimError, match="type mismatch"):
        shim.build(tmp_path / "out.jar")
