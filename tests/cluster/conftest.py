"""Tests on a real Spark; the session is shared as far as its settings allow."""

from __future__ import annotations

from tests.on_spark import shipped_by_value, spark_ended  # noqa: F401 - fixtures
