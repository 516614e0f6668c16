"""Connects the planner to a Spark session: the only part of Lever that acts.

``enable`` hands the JVM a function from request to pieces, ``disable`` takes it away, ``status`` shows what was
decided.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.java_gateway import ensure_callback_server_started

from .errors import NotConfiguredError
from .observe import TaskEnd
from .planner import BatchStatus, ExecutorStatus, Planner, SourceRequest, StateRequest
from .plans import DEFAULT_PLAN, BatchPlan, plan_of
from .session import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

PLAN_TIMEOUT_MS = 1000


@dataclass(frozen=True, slots=True)
class LeverStatus:
    """What Lever knows of one query."""

    plan: str
    batches: tuple[BatchStatus, ...]
    """Planned batches, oldest first."""
    failures: dict[str, int]
    """Why batches were left as Spark would run them, and how often, over all queries of the session."""

    @property
    def executors(self) -> tuple[ExecutorStatus, ...]:
        """The executors of the newest batch: class, capacity, share, predicted and actual finish time."""
        return self.batches[-1].executors if self.batches else ()


class Lever:
    """Pre-scheduling in one Spark session. Made by ``enable``."""

    def __init__(
        self,
        spark: SparkSession,
        planner: Planner,
        decide: Callable[[SourceRequest], Any],
        settle: Callable[[StateRequest], Any],
    ) -> None:
        self.planner = planner
        self._jvm = spark.sparkContext._jvm.org.apache.spark.sql.tailrace.Lever  # noqa: SLF001  the only way to it
        self._callback = _Callback(decide, settle)

    def start(self, spark: SparkSession, timeout_ms: int) -> None:
        """Let the JVM ask this planner from the next batch on."""
        context = spark.sparkContext
        ensure_callback_server_started(context._gateway)  # noqa: SLF001  as PySpark's own foreachBatch does
        self._jvm.enable(context._jsc.sc(), self._callback, timeout_ms)  # noqa: SLF001

    def stop(self) -> None:
        """Let queries run as Spark runs them, from the next batch on."""
        self._jvm.disable()

    def status(self, query_id: str) -> LeverStatus:
        """Show the batches of one query, with the finish times that came in up to now."""
        ended = msgspec.json.decode(self._jvm.drain(query_id), type=list[TaskEnd])
        self.planner.learn(query_id, ended)
        batches = tuple(self.planner.history(query_id))
        return LeverStatus(self.planner.plan.name, batches, json.loads(self._jvm.failures()))


class _Callback:
    """The planner as a java.util.function.Function from JSON to JSON."""

    def __init__(self, decide: Callable[[SourceRequest], Any], settle: Callable[[StateRequest], Any]) -> None:
        self._decide = decide
        self._settle = settle

    def apply(self, text: str) -> str:
        """Answer one request; what is raised becomes the reason that the shim reports."""
        try:
            request = msgspec.json.decode(text, type=SourceRequest | StateRequest)
            if isinstance(request, StateRequest):
                return msgspec.json.encode(self._settle(request)).decode()
            pieces = self._decide(request)
            return msgspec.json.encode([[piece.executor, piece.ranges] for piece in pieces]).decode()
        except Exception as error:  # noqa: BLE001  a planner may fail in any way; the query must not
            return json.dumps({"error": f"{type(error).__name__}: {error}"[:200]})

    class Java:
        """Tells Py4J which interface this object has."""

        implements = ("java.util.function.Function",)


_current: list[Lever] = []
"""The Lever of this process's Spark context; there is at most one of either."""


def enable(
    spark: SparkSession,
    *,
    plan: str | BatchPlan = DEFAULT_PLAN,
    state: bool = True,
    plan_timeout_ms: int = PLAN_TIMEOUT_MS,
) -> Lever:
    """Pre-schedule every streaming query of this session from its next batch on.

    With ``state`` the partitions of stateful stages are placed by the same plan; without, only the input is.
    A planner that fails, or takes longer than ``plan_timeout_ms`` or half a trigger, costs that time and nothing else.
    """
    check(spark)
    planner = Planner(plan_of(plan), state=state)
    lever = Lever(spark, planner, planner.decide, planner.settle)
    lever.start(spark, plan_timeout_ms)
    _current[:] = [lever]
    return lever


def disable(spark: SparkSession) -> None:
    """Undo ``enable``; running queries go on without Lever."""
    check(spark)
    while _current:
        _current.pop().stop()


def status(query: StreamingQuery) -> LeverStatus:
    """Show what Lever decided for a query, per batch and executor."""
    return status_by_id(query.id)


def status_by_id(query_id: str) -> LeverStatus:
    """Show what Lever decided for the query with this id (``query.id``, which outlives restarts)."""
    if not _current:
        raise NotConfiguredError("Lever is not enabled in this process.", "Call tailrace.lever.enable(spark) first.")
    return _current[0].status(query_id)
