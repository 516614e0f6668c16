"""Sources and query shapes that must give the same rows with and without Lever."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORDS = [
    "to",
    "be",
    "or",
    "not",
    "to",
    "be",
    "that",
    "is",
    "the",
    "question",
    "whether",
    "tis",
    "nobler",
    "in",
    "the",
    "mind",
]


def write_inputs(spark, root: Path) -> None:
    """Lay out the same 900 records as text, JSON and Parquet, three files each."""
    for part in range(3):
        rows = [
            {"id": part * 300 + i, "word": WORDS[(part * 7 + i) % len(WORDS)], "nested": {"x": i % 5}}
            for i in range(300)
        ]
        for kind in ("text", "json"):
            (root / kind).mkdir(exist_ok=True)
        (root / "text" / f"{part}.txt").write_text("".join(f"{r['id']} {r['word']} {r['word']}\n" for r in rows))
        (root / "json" / f"{part}.json").write_text("".join(json.dumps(r) + "\n" for r in rows))
    frame = spark.read.json(str(root / "json"))
    frame.repartition(3).write.option("parquet.block.size", "1024").mode("overwrite").parquet(str(root / "parquet"))


class _Part(InputPartition):
    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end


class _CountingReader(DataSourceStreamReader):
    def initialOffset(self):  # noqa: N802
        return {"at": 0}

    def latestOffset(self):  # noqa: N802
        self.at = min(90, getattr(self, "at", 0) + 45)
        return {"at": self.at}

    def partitions(self, start, end):
        at, step = start["at"], 15
        return [_Part(i, min(i + step, end["at"])) for i in range(at, end["at"], step)]

    def read(self, partition):
        for value in range(partition.start, partition.end):
            yield (value,)


class CountingSource(DataSource):
    """A Python data source of 90 rows in three opaque partitions."""

    @classmethod
    def name(cls):
        return "lever_counting"

    def schema(self):
        return "value long"

    def streamReader(self, schema):  # noqa: N802
        return _CountingReader()


def rate(spark, *, partitions=3, rows=200):
    options = {"rowsPerBatch": rows, "numPartitions": partitions, "startTimestamp": 0}
    return spark.readStream.format("rate-micro-batch").options(**options).load()


def text(spark, root):
    return spark.readStream.option("maxFilesPerTrigger", 2).text(str(root / "text"))


def words(spark, root):
    return text(spark, root).select(F.explode(F.split("value", " ")).alias("word"))


def files(spark, root, kind):
    schema = "id long, nested struct<x: long>, word string"
    return spark.readStream.schema(schema).format(kind).option("maxFilesPerTrigger", 2).load(str(root / kind))


def static(spark):
    return spark.createDataFrame([(w, i) for i, w in enumerate(sorted(set(WORDS)))], "word string, rank long")


def total_per_partition(batches):
    import pandas as pd

    total = 0
    for batch in batches:
        total += len(batch)
    yield pd.DataFrame({"total": [total]})


def running_total(key, batches, state):
    import pandas as pd

    total = (state.get[0] if state.exists else 0) + sum(len(batch) for batch in batches)
    state.update((total,))
    yield pd.DataFrame({"key": [key[0]], "total": [total]})


def per_key_in_pandas(frame):
    keyed = frame.select(F.expr("value % 5").alias("key")).groupBy("key")
    return keyed.applyInPandasWithState(running_total, "key long, total long", "total long", "update", "NoTimeout")


def twice(frame):
    return frame.union(frame.selectExpr("-value"))


def python_source(spark, root):
    spark.dataSource.register(CountingSource)
    return spark.readStream.format("lever_counting").load().where("value % 3 > 0")


@dataclass(frozen=True)
class Shape:
    name: str
    build: Callable
    mode: str = "append"
    fixed: bool | None = False
    """Whether partitions must stay as they are; None where that differs between Spark versions."""


SHAPES = [
    Shape("rate", lambda s, r: rate(s).selectExpr("value", "timestamp", "value * 2 AS twice")),
    Shape("rate_grouped", lambda s, r: rate(s).groupBy(F.expr("value % 7")).count(), "complete"),
    Shape("one_partition_global", lambda s, r: rate(s, partitions=1).agg(F.sum("value")), "complete", fixed=None),
    Shape("one_partition_keyed", lambda s, r: rate(s, partitions=1).groupBy(F.expr("value % 7")).count(), "complete",
          fixed=None),
    Shape("one_partition_projected", lambda s, r: rate(s, partitions=1).select("value")),
    Shape("wordcount", lambda s, r: words(s, r).groupBy("word").count(), "complete"),
    Shape("json", lambda s, r: files(s, r, "json").select("id", "nested.x", "word")),
    Shape("parquet", lambda s, r: files(s, r, "parquet").where("id % 2 = 0").select("id", "word")),
    Shape("parquet_grouped", lambda s, r: files(s, r, "parquet").groupBy("word").agg(F.sum("id")), "complete"),
    Shape("union", lambda s, r: rate(s).select("value").union(files(s, r, "json").select("id"))),
    Shape("self_union", lambda s, r: twice(rate(s).select("value"))),
    Shape("static_join", lambda s, r: words(s, r).join(static(s), "word")),
    Shape("static_join_shuffled", lambda s, r: words(s, r).join(static(s).hint("shuffle_merge"), "word")),
    Shape("deduplicated", lambda s, r: words(s, r).dropDuplicates(["word"])),
    Shape("stream_join", lambda s, r: rate(s).selectExpr("value AS a").join(rate(s).selectExpr("value * 2 AS b"),
          F.expr("a = b"))),
    Shape("pandas_state", lambda s, r: per_key_in_pandas(rate(s)), "update"),
    Shape("partition_ids", lambda s, r: rate(s).select("value", F.spark_partition_id().alias("p")), fixed=True),
    Shape("limited", lambda s, r: rate(s, partitions=1).select("value").limit(50), fixed=True),
    Shape("per_partition", lambda s, r: rate(s).mapInPandas(total_per_partition, "total long"), fixed=True),
    Shape("input_file", lambda s, r: text(s, r).select(F.input_file_name(), "value")),
    Shape("block_starts", lambda s, r: text(s, r).select("_metadata.file_block_start", "_metadata.file_block_length")),
    Shape("python_source", python_source),
]  # fmt: skip
