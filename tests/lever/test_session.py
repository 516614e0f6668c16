"""Settings, status, the progress listener, and explain over a log of our own."""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import urlparse

import pytest

from tailrace import lever
from tailrace.lever.explain import explain

from .cluster import CountedQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_the_listener_shows_every_batch_and_explain_reads_the_log(spark, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="tailrace.lever")
    enabled = lever.enable(spark, plan_timeout_ms=20_000)
    listener = lever.ProgressListener()
    spark.streams.addListener(listener)
    counted = CountedQuery(spark, tmp_path)
    counted.wait_for(4)
    while not any("took" in record.message and "? ms" not in record.message for record in caplog.records):
        counted.query.awaitTermination(0.05)
    counted.check()
    spark.streams.removeListener(listener)
    assert lever.status(counted.query).plan == "damped"
    rows = enabled.status(counted.query.id).batches[2].executors
    assert all(row.capacity > 0 and row.actual_ms and row.predicted_ms for row in rows)

    folder = Path(urlparse(spark.conf.get("spark.eventLog.dir")).path)
    report = explain(next(folder.iterdir()))
    assert counted.query.id in report.locality
    assert report.groups[counted.query.id].replayed


def test_compressed_logs_are_read_by_sparks_own_codecs(spark, tmp_path):
    log = tmp_path / "eventlog_v2_app-1"
    log.mkdir()
    end = (
        '{{"Event":"SparkListenerTaskEnd","Stage ID":{0},"Stage Attempt ID":0,"Task End Reason":{{"Reason":"Success"}},'
        '"Task Info":{{"Executor ID":"{1}","Host":"h","Launch Time":1,"Finish Time":9}},"Task Metrics":{{}}}}\n'
    )
    jvm = spark.sparkContext._jvm
    for number, codec in enumerate(("zstd", "lz4", "snappy"), start=1):
        text = "".join(end.format(number, executor) for executor in "12") * 2
        file = jvm.java.io.FileOutputStream(str(log / f"events_{number}_app-1.{codec}"))
        packer = jvm.org.apache.spark.io.CompressionCodec.createCodec(spark.sparkContext._jsc.sc().conf(), codec)
        stream = packer.compressedOutputStream(file)
        stream.write(bytearray(text.encode()))
        stream.close()
    assert explain(log).as_dict()["stages"] == 3
