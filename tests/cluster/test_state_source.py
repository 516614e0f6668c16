"""``format("tailrace-state")`` on a real Spark: the states in a checkpoint as rows."""

from __future__ import annotations

from collections import Counter

import pytest
from tests import sparks
from tests.unit.checkpoint.made import WORDS, counted

import tailrace as tr
from tailrace.checkpoint.reader import CheckpointReader
from tailrace.checkpoint.stores import open_store
from tailrace.routing.fields import group_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    counted(folder)
    return str(folder)


@pytest.fixture(scope="module")
def spark():
    session = sparks.session()
    tr.register(session)
    return session


def test_keys_and_values_are_rows(spark, path):
    rows = spark.read.format("tailrace-state").option("operator", "counts").load(path)
    assert rows.columns == ["operator", "task", "key", "value", "key_group", "epoch"]
    assert rows.rdd.getNumPartitions() == 2
    found = rows.collect()
    assert {row.key: int(row.value) for row in found} == Counter(WORDS)
    assert {row.key: row.key_group for row in found} == {word: group_of(word, 1024) for word in set(WORDS)}


def test_all_operators_of_an_earlier_epoch(spark, path):
    earlier = CheckpointReader(open_store(path)).entries()[-1].manifest
    rows = spark.read.format("tailrace-state").option("epoch", earlier.epoch).load(path)
    found = {row.operator: row["count"] for row in rows.groupBy("operator").count().collect()}
    assert set(found) == {"counts", "lengths"}
    assert {row.epoch for row in rows.collect()} == {earlier.epoch}
    values = {row.key: row.value for row in rows.filter("operator = 'lengths' and key is not null").collect()}
    assert all(value.startswith('{"words": [') for value in values.values())


def test_what_is_not_there_is_named(spark, path, tmp_path):
    for options, said in (
        ({"operator": "count"}, "Did you mean 'counts'"),
        ({"epoch": "999"}, "no epoch 999"),
        ({"epcoh": "1"}, "Did you mean 'epoch'"),
    ):
        with pytest.raises(Exception, match=said):
            spark.read.format("tailrace-state").options(**options).load(path).collect()
    with pytest.raises(Exception, match="no epoch that is whole"):
        spark.read.format("tailrace-state").load(str(tmp_path)).collect()
