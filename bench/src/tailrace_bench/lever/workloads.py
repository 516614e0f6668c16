"""The queries of the paper's evaluation, as Structured Streaming: records of about 100 bytes, made by the rate source.

Called by the driver process. Work per record is a timed wait in a Python function, because four executors share two
cores here; identity and sample do no work per record, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

VOCABULARY = (
    "the a of to in is on by it or be at as an we he so do go up river water mill wheel gate stone "
    "bridge bank flood spring winter summer autumn grain flour field road house garden window letter "
    "morning evening market village"
)
SENTENCES = 64
SENTENCE_BYTES = 100
CAMPAIGNS, ADS_PER_CAMPAIGN = 100, 10
TOP_K = 10


@dataclass(frozen=True, slots=True)
class BatchLoad:
    """How much a batch is."""

    rows: int
    wait_us: int
    """Per record, in cases that work."""
    partitions: int
    trigger_s: float


@dataclass(frozen=True, slots=True)
class LeverCase:
    """One query of the benchmark."""

    build: Callable[[SparkSession, BatchLoad], DataFrame]
    mode: str = "append"
    barred: bool = False
    """Whether the bars of the issue are for this case."""
    paper: str = ""
    """The paper's reduction of job completion time against default Spark."""


def source(spark: SparkSession, load: BatchLoad) -> DataFrame:
    """Give the same number of records in every batch, whatever the time between batches."""
    options = {
        "rowsPerBatch": load.rows,
        "numPartitions": load.partitions,
        "advanceMillisPerBatch": int(load.trigger_s * 1000),
    }
    return spark.readStream.format("rate-micro-batch").options(**options).load()


def lines(spark: SparkSession, load: BatchLoad) -> DataFrame:
    """Records as text."""
    random = Random(1)  # noqa: S311  the same sentences in every run, nothing secret
    texts = F.array(*(F.lit(_sentence(random)) for _ in range(SENTENCES)))
    return source(spark, load).select("timestamp", F.element_at(texts, (F.col("value") % SENTENCES + 1).cast("int")))


def _sentence(random: Random) -> str:
    known, sentence = VOCABULARY.split(), "the"
    while len(sentence) < SENTENCE_BYTES:
        sentence += " " + random.choice(known)
    return sentence


def worked(column: str | Column, load: BatchLoad) -> Column:
    """Pass a column on unchanged after the wait that stands for the work on a record."""
    wait_s = load.wait_us / 1e6

    def work(value: str) -> str:
        # Imported here because the function travels to executors by value.
        import time  # noqa: PLC0415

        time.sleep(wait_s)
        return value

    return F.udf(work, "string")(column)


def _worked_lines(spark: SparkSession, load: BatchLoad) -> DataFrame:
    frame = lines(spark, load).toDF("timestamp", "line")
    return frame.select("timestamp", worked("line", load).alias("line"))


def _words(spark: SparkSession, load: BatchLoad) -> DataFrame:
    return _worked_lines(spark, load).select("timestamp", F.explode(F.split("line", " ")).alias("word"))


def identity(spark: SparkSession, load: BatchLoad) -> DataFrame:
    """Read every record and do nothing with it."""
    return lines(spark, load).toDF("timestamp", "line")


def sample(spark: SparkSession, load: BatchLoad) -> DataFrame:
    """Keep a record with probability 0.1."""
    return identity(spark, load).where(F.rand() < 0.1)  # noqa: PLR2004  HiBench's default


def projection(spark: SparkSession, load: BatchLoad) -> DataFrame:
    """Split a record and emit field 1."""
    return _worked_lines(spark, load).select(F.element_at(F.split("line", " "), 2).alias("field"))


def grep(spark: SparkSession, load: BatchLoad) -> DataFrame:
    """Emit a record if it contains ``the``."""
    return _worked_lines(spark, load).where(F.col("line").contains("the"))


def wordcount(spark: SparkSession, load: BatchLoad) -> DataFrame:
    """Running totals per word."""
    return _words(spark, load).groupBy("word").count()


def window(spark: SparkSession, load: BatchLoad) -> DataFrame:
    """Word counts over the last 10 s, every 2 s."""
    words = _words(spark, load).withWatermark("timestamp", "10 seconds")
    return words.groupBy(F.window("timestamp", "10 seconds", "2 seconds"), "word").count()


def topk(spark: SparkSession, load: BatchLoad) -> DataFrame:
    """The ten most frequent words per sliding window."""
    return window(spark, load).orderBy(F.desc("window"), F.desc("count")).limit(TOP_K)


def ysb(spark: SparkSession, load: BatchLoad) -> DataFrame:
    """Advertising views per campaign in windows of 10 s: parse, filter, join with the campaigns, count."""
    event = F.format_string(
        '{"ad_id": "%d", "event_type": "%s", "page_id": "%d", "ip_address": "1.2.3.4"}',
        F.col("value") % (CAMPAIGNS * ADS_PER_CAMPAIGN),
        F.element_at(F.array(*map(F.lit, ("view", "click", "purchase"))), (F.col("value") % 3 + 1).cast("int")),
        F.col("value"),
    )
    raw = source(spark, load).select("timestamp", event.alias("json"))
    parsed = raw.select("timestamp", F.from_json(worked("json", load), "ad_id string, event_type string").alias("e"))
    views = parsed.where("e.event_type = 'view'").select("timestamp", "e.ad_id")
    ads = spark.range(CAMPAIGNS * ADS_PER_CAMPAIGN).selectExpr(
        "string(id) AS ad_id", f"id DIV {ADS_PER_CAMPAIGN} AS campaign"
    )
    joined = views.join(F.broadcast(ads), "ad_id").withWatermark("timestamp", "10 seconds")
    return joined.groupBy(F.window("timestamp", "10 seconds"), "campaign").count()


CASES = {
    "wordcount": LeverCase(wordcount, "update", barred=True, paper="-37.54 %"),
    "topk": LeverCase(topk, "complete", barred=True, paper="-42.19 %"),
    "window": LeverCase(window, "update", barred=True, paper="-48.17 %"),
    "ysb": LeverCase(ysb, "update", barred=True, paper="-44.64 %"),
    "projection": LeverCase(projection, paper="-32.31 %"),
    "grep": LeverCase(grep, paper="-30.72 %"),
    "identity": LeverCase(identity, paper="little"),
    "sample": LeverCase(sample, paper="little"),
}
