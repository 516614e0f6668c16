"""Reads Spark event logs: a single file, a rolling folder, plain or compressed with any codec Spark has.

Compressed logs are unpacked by Spark's own reader in a JVM started for it, so that no codec library is needed; that
takes a few seconds. Lines of unknown events are skipped, a torn last line (a running application) too.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.java_gateway import launch_gateway

from ..errors import EventLogError
from .tasks import StageAttempt, TaskAttempt, stages_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CODECS = (".lz4", ".lzf", ".snappy", ".zstd")
ROLLED = re.compile(r"events_(\d+)_")
WANTED = ('"SparkListenerTaskEnd"', '"SparkListenerStageSubmitted"', '"SparkListenerStageCompleted"')


def read_event_log(path: Path) -> list[StageAttempt]:
    """Return the stages of an event log in order, each with its successful tasks."""
    with tempfile.TemporaryDirectory(prefix="tailrace-explain-") as folder:
        files = _plain(_files(path), Path(folder))
        stages = _stages(_events(files))
    if not stages:
        raise EventLogError(
            f"{path} was expected to be a Spark event log with finished tasks, and none was found in it.",
            "Give the file or the eventlog_v2_ folder that spark.eventLog.dir holds for one application.",
        )
    return stages


def _files(path: Path) -> list[Path]:
    """Return the parts of a log in the order in which they were written."""
    if not path.exists():
        raise EventLogError(f"{path} was expected to be an event log and does not exist.", "Check the path.")
    if path.is_file():
        return [path]
    rolled = {int(found[1]): file for file in sorted(path.iterdir()) if (found := ROLLED.match(file.name))}
    if not rolled:
        raise EventLogError(
            f"{path} was expected to be a rolling event log, and holds no file named events_<number>_<application>.",
            "Give the file of one application, or a folder named eventlog_v2_<application>.",
        )
    return [rolled[number] for number in sorted(rolled)]


def _codec(path: Path) -> str:
    name = path.name.removesuffix(".inprogress").removesuffix(".compact")
    return next((codec for codec in CODECS if name.endswith(codec)), "")


def _plain(files: list[Path], folder: Path) -> list[Path]:
    if not any(_codec(file) for file in files):
        return files
    gateway = launch_gateway()
    try:
        return [_unpack(gateway.jvm, file, folder / str(i)) if _codec(file) else file for i, file in enumerate(files)]
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=30)


def _unpack(jvm: Any, source: Path, target: Path) -> Path:
    path = jvm.org.apache.hadoop.fs.Path(str(source.resolve()))
    files = path.getFileSystem(jvm.org.apache.hadoop.conf.Configuration())
    stream = jvm.org.apache.spark.deploy.history.EventLogFileReader.openEventLog(path, files)
    try:
        options = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.nio.file.CopyOption"), 0)
        jvm.java.nio.file.Files.copy(stream, jvm.java.io.File(str(target)).toPath(), options)
    finally:
        stream.close()
    return target


def _events(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if any(name in line[:80] for name in WANTED):
                    try:
                        yield msgspec.json.decode(line)
                    except msgspec.DecodeError:
                        continue


def _stages(events: Iterable[dict[str, Any]]) -> list[StageAttempt]:
    tasks: list[TaskAttempt] = []
    submitted_ms: dict[tuple[int, int], int] = {}
    streams: dict[tuple[int, int], tuple[str, int]] = {}
    for event in events:
        if event["Event"] == "SparkListenerTaskEnd":
            if event["Task End Reason"]["Reason"] == "Success":
                tasks.append(_task(event, streams))
            continue
        info = event["Stage Info"]
        key = info["Stage ID"], info["Stage Attempt ID"]
        if "Submission Time" in info:
            submitted_ms[key] = info["Submission Time"]
        properties = event.get("Properties") or {}
        if "sql.streaming.queryId" in properties:
            streams[key] = properties["sql.streaming.queryId"], int(properties.get("streaming.sql.batchId", -1))
    return stages_of(tasks, submitted_ms)


def _task(event: dict[str, Any], streams: dict[tuple[int, int], tuple[str, int]]) -> TaskAttempt:
    info, metrics = event["Task Info"], event.get("Task Metrics") or {}
    read = metrics.get("Input Metrics") or {}
    shuffled = metrics.get("Shuffle Read Metrics") or {}
    key = event["Stage ID"], event["Stage Attempt ID"]
    query, batch = streams.get(key, ("", -1))
    return TaskAttempt(
        stage=key[0],
        attempt=key[1],
        executor=str(info["Executor ID"]),
        host=info["Host"],
        launch_ms=info["Launch Time"],
        finish_ms=info["Finish Time"],
        rows=read.get("Records Read", 0),
        bytes_read=read.get("Bytes Read", 0),
        query=query,
        batch=batch,
        locality=info.get("Locality", ""),
        index=info.get("Index", -1),
        shuffle_rows=shuffled.get("Total Records Read", 0),
        shuffle_bytes=shuffled.get("Remote Bytes Read", 0) + shuffled.get("Local Bytes Read", 0),
    )
