"""A server of object stores for the tests that need one; it takes seconds to start."""

from __future__ import annotations

import pytest
from tests.s3_server import s3_server


@pytest.fixture(scope="session")
def s3():
    with s3_server() as server:
        yield server
