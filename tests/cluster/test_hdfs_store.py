"""The contract of stores, and faults, on a real HDFS through the JVM of a real session."""

from __future__ import annotations

import itertools
import socket

import pytest
from tests import sparks
from tests.hdfs_cluster import hdfs_cluster
from tests.maven import UnavailableError
from tests.store_contract import StoreContract

from tailrace.checkpoint.stores import (
    ObjectMissingError,
    StoreAddressError,
    StoreFullError,
    StorePermissionError,
    StoreUnreachableError,
    StoreUnsupportedError,
    open_store,
)
from tailrace.checkpoint.stores.tree import LEFTOVER_AGE_S

pytestmark = pytest.mark.spark
_folders = itertools.count()


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    try:
        with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as cluster:
            sparks.session()  # starts meanwhile
            cluster.wait()
            yield cluster
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def spark(hdfs):
    return sparks.session()


@pytest.fixture
def uri(hdfs):
    return f"{hdfs.uri}/open/{next(_folders)}"


class TestHdfs(StoreContract):
    turns = 15

    @pytest.fixture
    def opener(self, spark, uri):
        return lambda: open_store(uri, spark=spark)


def java_path(spark, text):
    return spark._jvm.org.apache.hadoop.fs.Path(text)


def files_at(spark, uri):
    return java_path(spark, uri).getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())


def test_workers_cannot_reach_it(spark, uri):
    assert open_store(uri, spark=spark).reachable_from_workers is False


def test_what_is_being_written_is_not_seen_and_goes_when_it_is_old(spark, uri):
    store, files = open_store(uri, spark=spark), files_at(spark, uri)
    assert store.put_new("epochs/1/part", b"kept")
    for name, age_s in (("old", LEFTOVER_AGE_S + 60), ("young", 0)):
        left = java_path(spark, f"{uri}/epochs/1/.writing-{name}")
        files.create(left, False).close()
        changed_ms = files.getFileStatus(left).getModificationTime() - int(age_s * 1000)
        files.setTimes(left, changed_ms, -1)
    names = [each.name for each in store.list()]
    again = open_store(uri, spark=spark)
    left = {each.getPath().getName() for each in files.listStatus(java_path(spark, f"{uri}/epochs/1"))}
    assert names == ["epochs/1/part"]
    assert left == {"part", ".writing-young"}
    assert again.get("epochs/1/part") == b"kept"


def test_no_permission(spark, hdfs):
    for path in ("/closed", "/"):
        with pytest.raises(StorePermissionError, match="Permission denied: user=") as failed:
            open_store(f"{hdfs.uri}{path}", spark=spark)
        assert "kinit" in failed.value.hint


def test_a_quota_that_is_reached(spark, hdfs):
    store = open_store(f"{hdfs.uri}/small/x", spark=spark)
    with pytest.raises(StoreFullError, match="quota"):
        store.put_new("part", bytes(100))
    assert not store.list()
    with pytest.raises(ObjectMissingError):
        store.get("part")


def test_a_name_node_in_safe_mode_may_take_writes_later(spark, hdfs, uri):
    store = open_store(uri, spark=spark)
    hdfs.safe_mode(on=True)
    try:
        with pytest.raises(StoreUnreachableError, match="safe mode") as failed:
            store.put_new("part", b"1")
    finally:
        hdfs.safe_mode(on=False)
    assert failed.value.transient
    assert store.put_new("part", b"1") is True


def test_a_path_that_is_a_file(spark, uri):
    open_store(uri, spark=spark).put_new("file", b"1")
    for path in (f"{uri}/file", f"{uri}/file/below"):
        with pytest.raises(StoreAddressError):
            open_store(path, spark=spark)


def test_a_reader_makes_no_folder(spark, hdfs, uri):
    with pytest.raises(ObjectMissingError):
        open_store(uri, spark=spark, writable=False)
    with pytest.raises(ObjectMissingError):
        open_store(uri, spark=spark, writable=False)
    open_store(uri, spark=spark).put_new("a", b"1")
    assert open_store(uri, spark=spark, writable=False).get("a") == b"1"


def test_nobody_there(spark):
    spark.conf.set("ipc.client.connect.max.retries", "0")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: refused
        with pytest.raises(StoreUnreachableError):
            open_store(f"hdfs://127.0.0.1:{unused.getsockname()[1]}/x", spark=spark)


@pytest.mark.parametrize("uri", ["nosuch://host/x", "s3a://bucket/x"])
def test_a_scheme_that_the_session_does_not_know(spark, uri):
    with pytest.raises(StoreUnsupportedError):
        open_store(uri, spark=spark)
