"""Tests of state that survives; those on Spark share its session."""

from __future__ import annotations

from tests.on_spark import shipped_by_value, spark_ended  # noqa: F401 - fixtures
