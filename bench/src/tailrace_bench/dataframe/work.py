"""The functions of ``tailrace bench dataframe``, as each arm calls them, and the sink that tells how old rows are.

One pair of functions for all: Spark's UDFs call them on columns, the topology on rows. Runs in Spark's tasks and in
workers; touches a file of latencies per task.
"""

from __future__ import annotations

import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.connect.table import Table

if TYPE_CHECKING:
    from tailrace.topology.operators import TaskContext

SCHEMA = "id long, score long"
LINE_SCHEMA = "due_us long, score long"


def clean(text: str) -> str:
    """Tidy a sentence up."""
    return text.lower().replace(",", " ").replace(".", " ").strip()


def score(text: str) -> int:
    """Weigh a sentence by its words."""
    return sum(map(len, text.split()))


def cleaned(row: dict[str, Any]) -> dict[str, Any]:
    """The first function on a row."""
    return {"id": row["id"], "text": clean(row["text"])}


def scored(row: dict[str, Any]) -> dict[str, Any]:
    """The second function on a row."""
    return {"id": row["id"], "score": score(row["text"])}


def scored_line(line: str) -> dict[str, Any]:
    """Both functions on a line of the open loop: when it was due, and a sentence."""
    due, _, text = line.partition("\t")
    return {"due_us": int(due), "score": score(clean(text))}


def score_of_line(line: str) -> int:
    """Both functions on a line, for Spark's UDFs; the time is cut off by Spark."""
    return score(clean(line.partition("\t")[2]))


class TimedTable(Table):
    """A table that notes how old each row is once it is on disk."""

    label = "table"

    def __init__(self, folder: str, name: str) -> None:
        super().__init__(Path(folder) / name, LINE_SCHEMA, stream="out", commit_s=0.5)
        self.latencies = str(Path(folder) / f"{name}.latencies")

    def open(self, ctx: TaskContext) -> None:
        """Open the file of latencies too."""
        super().open(ctx)
        self._times = Path(f"{self.latencies}-{ctx.task}").open("ab", buffering=0)  # noqa: SIM115 - closed in close()

    def write_origins(self, values: list[Any], origins: list[int] | None) -> None:
        """Write, then look at the clock."""
        super().write_origins(values, origins)
        now_us = time.time_ns() // 1000
        self._times.write(array("q", [now_us - value["due_us"] for value in values]).tobytes())

    def close(self) -> None:
        """Close both."""
        super().close()
        self._times.close()


def read_latencies(path: str) -> list[int]:
    """All latencies that the tasks of a timed table have written, in microseconds."""
    found: array[int] = array("q")
    for file in sorted(Path(path).parent.glob(f"{Path(path).name}-*")):
        data = file.read_bytes()
        found.frombytes(data[: len(data) // 8 * 8])
    return list(found)
