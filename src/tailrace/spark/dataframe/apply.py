"""``flow.apply(df)``: a bounded DataFrame through a topology and out again, in one line.

Puts a source and a sink to the two ends that the user left open, and runs the result inside Spark's tasks or through
workers.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailrace.connect.dataframe import DataFrameSource
from tailrace.connect.ddl import write_ddl
from tailrace.connect.errors import ConnectorOptionError
from tailrace.connect.table import Table
from tailrace.topology.applied import Input, Output
from tailrace.topology.ship import ship

from ..checks import slots_of
from ..errors import NotApplicableError
from ..interpreter import driver_interpreter
from . import fused_chain
from .apply_folder import ApplyFolder
from .datasource import register
from .frames import check_frame, check_session_of, prepare
from .output_schema import output_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.topology.graph import Topology

INSIDE = ("auto", "tasks", "workers")


def apply(
    start: Callable[..., Any],
    flow: Topology,
    df: Any,
    *,
    inside: str = "auto",
    spark: Any = None,
    workers: int | None = None,
    folder: str | None = None,
    **options: Any,
) -> Any:
    """See ``Topology.apply``; ``start`` is ``tr.start``."""
    check_frame(df)
    if df.isStreaming:
        raise NotApplicableError(
            "apply takes a bounded DataFrame, found a streaming one.",
            "Use flow.source(tr.sources.dataframe(df)) and tr.sinks.table(...) with tr.start.",
        )
    if inside not in INSIDE:
        raise ConnectorOptionError(f"inside must be one of {', '.join(INSIDE)}; found {inside!r}.", "Leave it out.")
    if spark is not None:
        check_session_of(df, spark)
    source, output = _ends(flow)
    form = flow.operators[source].fn.form
    schema = output_schema(flow, output, df)
    chained = _with(flow, {output: fused_chain.Kept()}, {})
    reason = fused_chain.why_not(chained)
    if inside == "tasks" and reason:
        raise NotApplicableError(f"Topology {flow.name!r} cannot run inside Spark's tasks: {reason}.", "Use workers.")
    if inside == "tasks" or (inside == "auto" and not reason):
        flow.validate()
        # Through the source's own checks: columns and types must fit whichever way rows go.
        whole = DataFrameSource(df, form, None, {})
        prepare(whole, df.sparkSession)
        run = functools.partial(fused_chain.run_chain, ship(chained), form, schema.serialize().to_pybytes())
        with driver_interpreter(df.sparkSession.sparkContext):
            return whole.df.mapInArrow(run, write_ddl(schema))
    return _through_workers(start, flow, (source, output), df, schema, workers, folder, options)


def _ends(flow: Topology) -> tuple[str, str]:
    inputs = [name for name, spec in flow.operators.items() if spec.kind == "source"]
    outputs = [name for name, spec in flow.operators.items() if isinstance(spec.fn, Output)]
    if len(inputs) != 1 or not isinstance(flow.operators[inputs[0]].fn, Input) or len(outputs) != 1:
        raise NotApplicableError(
            f"apply needs one flow.input() as the only source and one .output(); topology {flow.name!r} has "
            f"{len(inputs)} sources and {len(outputs)} outputs.",
            "Draw flow.input()....output(schema).",
        )
    return inputs[0], outputs[0]


def _with(flow: Topology, fns: dict[str, Any], tasks: dict[str, int]) -> Topology:
    """A copy of the topology with other ends."""
    made = copy.copy(flow)
    made.operators = {
        name: replace(spec, fn=fns.get(name, spec.fn), tasks=tasks.get(name, spec.tasks))
        for name, spec in flow.operators.items()
    }
    made.edges = list(flow.edges)
    return made


def _through_workers(
    start: Callable[..., Any],
    flow: Topology,
    ends: tuple[str, str],
    df: Any,
    schema: Any,
    workers: int | None,
    folder: str | None,
    options: dict[str, Any],
) -> Any:
    spark = df.sparkSession
    workers = workers or max(1, slots_of(spark.sparkContext) // 2)
    temporary = None if folder else ApplyFolder(spark)
    with temporary.held() if temporary else contextlib.nullcontext(folder or "") as kept:
        _run(start, flow, ends, Table(kept, schema, stream="out", commit_s=1.0), df, workers, options)
        register(spark)
        rows = spark.read.format("tailrace").option("query", kept).option("stream", "out").load()
        return temporary.handed_over(rows) if temporary else rows


def _run(
    start: Callable[..., Any],
    flow: Topology,
    ends: tuple[str, str],
    table: Table,
    df: Any,
    workers: int,
    options: dict[str, Any],
) -> None:
    """Let workers write the table, to its end."""
    source, output = ends
    fed = DataFrameSource(df, flow.operators[source].fn.form, None, {})
    given = flow.operators[source].tasks
    made = _with(flow, {source: fed, output: table}, {} if given else {source: workers})
    query = start(made, spark=df.sparkSession, workers=workers, **options)
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop(now=True)  # nobody else could: the caller never gets to see it
        raise
