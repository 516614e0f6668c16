"""A chain of stateless operators carried out inside the Spark tasks that hold the rows: chaining taken to its end.

No worker, no slot and no hand-over is needed then, and Spark's own restarts are all it takes. ``apply`` uses it where
the topology is such a chain; everything with state, time or a second way runs through workers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailrace.clock import SystemClock
from tailrace.connect.columns import ToColumns
from tailrace.connect.dataframe import row_maker
from tailrace.topology.contracts import Sink
from tailrace.topology.operators import TaskContext
from tailrace.topology.plan import make_plan
from tailrace.transport import codec
from tailrace.worker.execution.backends import memory_backends
from tailrace.worker.execution.chain import Chain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.topology.graph import Topology
    from tailrace.topology.operators import OperatorSpec

#: Rows that go through the chain together: few enough to stay in the processor's cache between its steps.
ROWS_PER_RUN = 1024
STATELESS = frozenset({"source", "map", "filter", "flat_map", "map_batches", "sink"})


def why_not(flow: Topology) -> str:
    """Why a topology cannot run inside Spark's tasks; empty if it can."""
    plan = make_plan(flow)
    for spec in flow.operators.values():
        if spec.verb not in STATELESS:
            return f"{spec.name!r} ({spec.verb}) may keep state"
        if spec.on_error == "dead_letter":
            return f"the dead letters of {spec.name!r} go another way"
    if len(plan.stages) > 1:
        return "its operators do not form one chain"
    if plan.stages[0].is_async:
        return "an operator is awaited"
    return ""


class Kept(Sink):
    """Keeps what reaches the end of the chain until the batch is through."""

    label = "output"

    def __init__(self) -> None:
        self.values: list[Any] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Kept:
        return self

    def write(self, values: list[Any]) -> None:
        """Keep the values."""
        self.values.extend(values)


def run_chain(payload: bytes, form: Any, schema: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a shipped topology over a partition; what ``mapInArrow`` calls."""
    flow: Topology = codec.loads(payload)  # part of the closure that the driver shipped
    kept = next(spec.fn for spec in flow.operators.values() if isinstance(spec.fn, Kept))
    chain = Chain(make_plan(flow).stages[0], (), _context, memory_backends(1))
    chain.open()
    to_columns = ToColumns(pa.ipc.read_schema(pa.py_buffer(schema)))
    rows = row_maker(form)
    for batch in batches:
        for begin in range(0, batch.num_rows, batch.num_rows if rows is None else ROWS_PER_RUN):
            chain.run([batch] if rows is None else rows(batch.slice(begin, ROWS_PER_RUN)), None)
        yield from _columns(to_columns, kept)
    chain.close()
    yield from _columns(to_columns, kept)


def _columns(to_columns: ToColumns, kept: Kept) -> Iterator[pa.RecordBatch]:
    values, kept.values = kept.values, []
    if values and isinstance(values[0], pa.RecordBatch | pa.Table):
        for value in values:
            yield from to_columns.fitted(value)
    elif values:
        yield to_columns(values)


def _context(spec: OperatorSpec) -> TaskContext:
    logger = logging.getLogger(f"tailrace.operator.{spec.name}")
    return TaskContext(spec.name, 0, 1, "in Spark's tasks", logger, SystemClock(), lambda _: None)
