"""What a session must have before Lever is enabled."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

import tailrace
from tailrace import lever
from tailrace.lever.errors import NotConfiguredError, UnsupportedSessionError
from tailrace.lever.session import EXTENSION, check


class Builder(SparkSession.Builder):
    def __init__(self):
        self._options = {}


def test_configure_keeps_the_jars_and_extensions_a_builder_has():
    builder = Builder().config("spark.jars", "/mine.jar").config("spark.sql.extensions", "my.Extension")
    options = lever.configure(builder)._options
    assert options["spark.jars"].split(",")[0] == "/mine.jar"
    assert options["spark.jars"].endswith(".jar")
    assert options["spark.sql.extensions"] == f"my.Extension,{EXTENSION}"
    assert lever.configure(builder)._options["spark.sql.extensions"] == f"my.Extension,{EXTENSION}"
    assert "spark.speculation" not in options


def test_speculation_is_tuned_for_what_prediction_missed():
    options = lever.configure(Builder(), speculation=True)._options
    assert options["spark.speculation"] == "true"
    assert float(options["spark.speculation.multiplier"]) > 1


def test_one_call_starts_a_session_for_hosting_and_lever(monkeypatch):
    built = {}
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda self: built.update(self._options))
    tailrace.spark_session(config={"spark.jars": "/mine.jar", "spark.sql.extensions": "my.Extension"}, lever=True)
    assert built["spark.jars"].split(",")[0] == "/mine.jar"
    assert built["spark.sql.extensions"] == f"my.Extension,{EXTENSION}"
    assert built["spark.speculation"] == "false"
    assert float(built["spark.task.maxFailures"]) > 4


def session(**settings):
    conf = SparkConf(loadDefaults=False, _jconf=None, _jvm=None)
    for key, value in settings.items():
        conf.set(key.replace("_", "."), value)
    return SimpleNamespace(_jsparkSession=object(), sparkContext=SimpleNamespace(getConf=lambda: conf))


def test_a_session_without_the_settings_is_told_the_lines_to_add():
    with pytest.raises(NotConfiguredError) as caught:
        check(session(spark_app_name="x"))
    assert f'.config("spark.sql.extensions", "{EXTENSION}")' in caught.value.hint
    assert "tailrace.spark_session(lever=True)" in caught.value.hint


def test_a_session_with_the_settings_passes():
    check(session(spark_sql_extensions=f"other.One,{EXTENSION}"))


def test_spark_connect_is_refused():
    with pytest.raises(UnsupportedSessionError, match="Spark Connect"):
        check(SimpleNamespace())


def test_status_before_enable_is_a_named_error():
    with pytest.raises(NotConfiguredError, match="not enabled"):
        lever.status(SimpleNamespace(id="x"))
