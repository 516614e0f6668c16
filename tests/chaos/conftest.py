"""Tests that kill, stop or starve processes; those on Spark share its session."""

from __future__ import annotations

import cloudpickle
import pytest
from tests import sparks


@pytest.fixture(scope="session", autouse=True)
def _spark_ended():
    yield
    sparks.stop()


@pytest.fixture(autouse=True)
def _shipped_by_value(request):
    """Executors cannot import the tests."""
    cloudpickle.register_pickle_by_value(request.module)
