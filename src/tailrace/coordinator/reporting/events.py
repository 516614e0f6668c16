"""Listeners written for PySpark: events in its form, made of what our own listeners are told.

``query.addListener`` takes objects derived from ``pyspark.sql.streaming.StreamingQueryListener``, too. Events have the
attributes that people read there; what micro-batches have and a record-at-a-time query has not is empty. A report in
which nothing was read and nothing is open is told as idle. Needs no PySpark itself.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.interfaces import QueryListener
from tailrace.errors import ConfigError

if TYPE_CHECKING:
    from tailrace.coordinator.query import Query


@dataclass(frozen=True)
class StartedEvent:
    """A query runs."""

    id: uuid.UUID
    runId: uuid.UUID  # noqa: N815 - PySpark's name
    name: str
    timestamp: str


@dataclass(frozen=True)
class IdleEvent:
    """A query has nothing to do."""

    id: uuid.UUID
    runId: uuid.UUID  # noqa: N815 - PySpark's name
    timestamp: str


@dataclass(frozen=True)
class ProgressEvent:
    """A new report is there."""

    progress: Progress


@dataclass(frozen=True)
class TerminatedEvent:
    """A query has ended, and what it failed with."""

    id: uuid.UUID
    runId: uuid.UUID  # noqa: N815 - PySpark's name
    exception: str | None
    errorClassOnException: str | None  # noqa: N815 - PySpark's name


class Progress(dict[str, Any]):
    """A report as PySpark's: keys are attributes, too; all of ours is there beside what PySpark's has."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"progress has no {name!r}; it has {', '.join(self)}") from None

    @property
    def json(self) -> str:
        """The report as JSON."""
        return json.dumps(self, default=str)

    @property
    def prettyJson(self) -> str:  # noqa: N802 - PySpark's name
        """The report as JSON for people."""
        return json.dumps(self, default=str, indent=2)


class PySparkListener(QueryListener):
    """Passes on to a listener of PySpark's what a query tells."""

    def __init__(self, listener: Any) -> None:
        self.listener = listener
        self._read = 0

    def onQueryStarted(self, query: Query) -> None:  # noqa: N802 - PySpark's name
        """The query runs."""
        self.listener.onQueryStarted(StartedEvent(*_ids(query), query.name, _now()))

    def onQueryProgress(self, query: Query, progress: dict[str, Any]) -> None:  # noqa: N802 - PySpark's name
        """A new report is there, or one that nothing happened."""
        rows = progress["read"] - self._read
        self._read = progress["read"]
        idle = getattr(self.listener, "onQueryIdle", None)
        if idle is not None and not rows and not progress["pending"]:
            idle(IdleEvent(*_ids(query), progress["timestamp"]))
            return
        self.listener.onQueryProgress(ProgressEvent(_progress(query, progress, rows)))

    def onQueryTerminated(self, query: Query, error: Exception | None) -> None:  # noqa: N802 - PySpark's name
        """The query has ended."""
        kind = None if error is None else type(error).__name__
        told = None if error is None else f"{kind}: {error}"
        self.listener.onQueryTerminated(TerminatedEvent(*_ids(query), told, kind))


def listener_of(listener: Any) -> QueryListener:
    """What a query tells: a listener of ours as it is, one of PySpark's in between."""
    if isinstance(listener, QueryListener):
        return listener
    for base in type(listener).__mro__:
        if base.__name__ == "StreamingQueryListener" and base.__module__.startswith("pyspark."):
            return PySparkListener(listener)
    raise ConfigError(
        f"addListener takes an object whose class is a listener; found {type(listener).__name__}.",
        "Derive its class from tailrace.QueryListener or pyspark.sql.streaming.StreamingQueryListener.",
    )


def _ids(query: Query) -> tuple[uuid.UUID, uuid.UUID]:
    return uuid.UUID(query.id), uuid.UUID(query.runId)


def _now() -> str:
    return dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds")


def _progress(query: Query, progress: dict[str, Any], rows: int) -> Progress:
    done_per_s = sum(stage["inPerSecond"] for stage in progress["stages"] if "read" in stage)
    sources = [
        Progress(
            description=" + ".join(stage["operators"]),
            numInputRows=stage["read"],
            inputRowsPerSecond=stage["readPerSecond"],
        )
        for stage in progress["stages"]
        if "read" in stage
    ]
    return Progress(
        {
            **progress,
            "id": uuid.UUID(query.id),
            "runId": uuid.UUID(query.runId),
            "batchId": progress["sequence"],
            "batchDuration": 0,
            "durationMs": {},
            "eventTime": {},
            "numInputRows": rows,
            "processedRowsPerSecond": done_per_s,
            "sources": sources,
            "sink": Progress(description=query.name, numOutputRows=progress["completed"]),
            "stateOperators": [],
            "observedMetrics": {},
        }
    )
