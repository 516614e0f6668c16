"""What tests that may start a Spark have in common; conftest files of such folders import these fixtures."""

from __future__ import annotations

import cloudpickle
import pytest
from tests import sparks


@pytest.fixture(scope="session", autouse=True)
def spark_ended():
    """The session is kept between tests and ended after the last."""
    yield
    sparks.stop()


@pytest.fixture(autouse=True)
def shipped_by_value(request):
    """Executors cannot import the tests."""
    cloudpickle.register_pickle_by_value(request.module)
