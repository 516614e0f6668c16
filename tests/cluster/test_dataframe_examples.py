"""The DataFrame examples run as a user runs them, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.queries import until

from tailrace.connect.spool import Spool

pytestmark = [pytest.mark.soak, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 200


def started(name, *args):
    env = os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, str(ROOT / "examples" / name), *map(str, args)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process):
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err[-3000:]
    return out


def test_files_to_parquet(tmp_path):
    texts = ["one two", "", "three", "a longer sentence"]
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
    pq.write_table(pa.table({"id": range(4), "text": texts}, schema=schema), tmp_path / "in.parquet")
    told(started("dataframe_files.py", tmp_path / "in.parquet", tmp_path / "out.parquet"))
    rows = sorted(pq.read_table(tmp_path / "out.parquet").to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["words"], row["longest"]) for row in rows] == [
        (0, 2, "one"),
        (2, 1, "three"),
        (3, 3, "sentence"),
    ]


def counted(folder):
    spool = Spool(str(folder / "table"), "out")
    ranges = [part for number in range(spool.entries()) for part in spool.entry(number).ranges]
    return [(row["odd"], row["n"]) for batch in spool.read(ranges) for row in batch.to_pylist()]


def test_rate_to_console_counts_every_number_once_until_ctrl_c(tmp_path):
    process = started("dataframe_rate.py", tmp_path)
    until(lambda: (tmp_path / "out" / "commits" / "1").exists() or process.poll() is not None, "rows at the console")
    process.send_signal(signal.SIGINT)
    out = told(process)
    assert "stopping" in out
    assert "|odd|" in out
    rows = counted(tmp_path)
    for odd in (0, 1):
        counts = sorted(n for each, n in rows if each == odd)
        assert counts
        assert counts == list(range(1, len(counts) + 1))
