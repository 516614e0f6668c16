"""Reads a table of tasks (CSV, plain or gzipped, one row per task attempt) in place of an event log.

The columns are those that an event log has: stage_id, stage_attempt, executor_id, host, launch_ms, finish_ms,
and where known task_index, input_bytes, input_records, shuffle_read_bytes, shuffle_read_records and reason.
"""

from __future__ import annotations

import csv
import gzip
from typing import IO, TYPE_CHECKING

from ..errors import EventLogError
from .tasks import StageAttempt, TaskAttempt, stages_of

if TYPE_CHECKING:
    from pathlib import Path

NEEDED = {"stage_id", "stage_attempt", "executor_id", "host", "launch_ms", "finish_ms"}


def is_table(path: Path) -> bool:
    """Tell a table of tasks from an event log by its name."""
    return path.name.endswith((".csv", ".csv.gz"))


def read_table(path: Path) -> list[StageAttempt]:
    """Return the stages of a task table in order, each with its successful tasks."""
    with _open(path) as lines:
        reader = csv.DictReader(lines)
        missing = NEEDED - set(reader.fieldnames or ())
        if missing:
            raise EventLogError(
                f"{path} was expected to be a table of tasks, and has no column {', '.join(sorted(missing))}.",
                "Give an event log, or a table with one row per task.",
            )
        return stages_of([_task(row) for row in reader if row.get("reason", "Success") == "Success"], {})


def _open(path: Path) -> IO[str]:
    if not path.exists():
        raise EventLogError(f"{path} was expected to be a table of tasks and does not exist.", "Check the path.")
    return gzip.open(path, "rt", newline="") if path.name.endswith(".gz") else path.open(newline="")


def _task(row: dict[str, str]) -> TaskAttempt:
    return TaskAttempt(
        stage=int(row["stage_id"]),
        attempt=int(row["stage_attempt"]),
        executor=row["executor_id"],
        host=row["host"],
        launch_ms=int(row["launch_ms"]),
        finish_ms=int(row["finish_ms"]),
        rows=int(row.get("input_records") or 0),
        bytes_read=int(row.get("input_bytes") or 0),
        index=int(row.get("task_index") or -1),
        shuffle_rows=int(row.get("shuffle_read_records") or 0),
        shuffle_bytes=int(row.get("shuffle_read_bytes") or 0),
    )
