"""Which store a URI leads to."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tailrace.checkpoint.stores import StoreAddressError, StoreUnsupportedError, open_store
from tailrace.checkpoint.stores.cloud import CloudStore
from tailrace.checkpoint.stores.folder import FolderStore
from tailrace.checkpoint.stores.memory import MemoryStore


def test_paths_and_file_uris_are_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for uri in (
        tmp_path / "a",
        str(tmp_path / "a"),
        "a",
        f"file://{tmp_path}/a",
        f"file:{tmp_path}/a",
        "file://localhost" + str(tmp_path / "a"),
    ):
        store = open_store(uri)
        assert isinstance(store, FolderStore)
        assert store.address == str(tmp_path / "a")
        assert store.reachable_from_workers
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_stores_in_memory_are_shared_by_address():
    first = open_store("memory://test-registry")
    assert isinstance(first, MemoryStore)
    assert open_store("memory://test-registry") is first
    assert open_store("memory://test-registry-2") is not first
    assert not first.reachable_from_workers


@pytest.mark.parametrize("uri", ["s3://b/p?region=eu-central-1", "gs://b/p", "az://container/p?account_name=a"])
def test_clouds(uri):
    store = open_store(uri)
    assert isinstance(store, CloudStore)
    assert store.address == uri.partition("?")[0]
    assert store.reachable_from_workers


def test_options_in_the_mapping_go_before_those_in_the_uri():
    assert open_store("s3://b/p?region=one", {"region": "two"})._client.config["region"] == "two"


@pytest.mark.parametrize("uri", ["hdfs://host/x", "s3a://bucket/x", "ftp://host/x", "S4://bucket"])
def test_an_unknown_scheme_lists_what_is_known(uri):
    with pytest.raises(StoreAddressError, match="no Spark session") as failed:
        open_store(uri)
    for known in ("a path", "file:", "s3://", "gs://", "az://", "hdfs://", "abfss://"):
        assert known in failed.value.hint


def test_hadoop_needs_a_session_with_a_jvm():
    with pytest.raises(StoreUnsupportedError, match="classic Spark session"):
        open_store("hdfs://host/x", spark=SimpleNamespace())


@pytest.mark.parametrize("uri", ["file://host/x", "file:x"])
def test_a_file_uri_of_another_host_or_without_a_path(uri):
    with pytest.raises(StoreAddressError, match="absolute path"):
        open_store(uri)


@pytest.mark.parametrize("uri", ["/tmp/x", "file:///tmp/x", "memory://x"])
def test_options_where_there_are_none(uri):
    with pytest.raises(StoreAddressError, match="takes no options; found region"):
        open_store(uri, {"region": "r"})
