"""The stores that need no cluster hold to the contract; tests/cluster has HDFS."""

from __future__ import annotations

import itertools

import pytest
from tests.store_contract import StoreContract

from tailrace.checkpoint.stores import open_store

_prefixes = itertools.count()


class TestFolder(StoreContract):
    @pytest.fixture
    def opener(self, tmp_path):
        return lambda: open_store(tmp_path / "made" / "here")


class TestFileUri(StoreContract):
    @pytest.fixture
    def opener(self, tmp_path):
        return lambda: open_store(f"file://{tmp_path}/with%20space")


class TestMemory(StoreContract):
    @pytest.fixture
    def opener(self):
        address = f"memory://{next(_prefixes)}"
        return lambda: open_store(address)


class TestS3(StoreContract):
    @pytest.fixture
    def opener(self, s3):
        uri = s3.uri(f"queries/{next(_prefixes)}")
        return lambda: open_store(uri)
