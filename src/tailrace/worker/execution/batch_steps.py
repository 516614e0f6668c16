"""``map_batches`` as the worker runs it: rows become columns, the user's function runs once over all that waits.

How many rows that is follows the load: a turn takes what has come, one row when the worker is idle, up to the bound of
a turn when it is busy. Arrow is imported only by topologies that use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailrace.connect.columns import bare, dicts
from tailrace.connect.errors import WrongSchemaError
from tailrace.connect.schemas import row_fields
from tailrace.worker.execution.steps import Map

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.topology.operators import OperatorSpec, TaskContext

_VALUE = "value"


class MapBatches(Map):
    """One call of the user's function for all values of a turn, as Arrow, pandas or Polars has them."""

    def __init__(self, spec: OperatorSpec, ctx: TaskContext) -> None:
        super().__init__(spec, ctx)
        self._fn: Callable[[Any], Any] = spec.fn.fn
        self._to, self._back = _KINDS[spec.fn.of]

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Run over all values at once; where single failures are to be told apart, one by one after a failure."""
        if self.spec.on_error == "fail" or len(values) == 1:
            into.extend(self._run(values))
            return
        try:
            into.extend(self._run(values))
        except Exception:  # noqa: BLE001 - the value that did it is found below
            for value in values:
                into.extend(self._run([value]))

    def _run(self, values: Sequence[Any]) -> list[Any]:
        if isinstance(values[0], pa.RecordBatch | pa.Table):
            return [_whole(self._back(self._fn(self._to(value)))) for value in values]
        found = _whole(self._back(self._fn(self._to(_columns(values)))))
        if found.num_rows != len(values):
            raise WrongSchemaError(
                f"{self.spec.name!r} got {len(values)} rows and gave {found.num_rows}; of rows, a batch function gives "
                "as many as it gets.",
                "Filter with .filter, multiply with .flat_map, or take the DataFrame's rows as 'arrow' batches.",
            )
        return bare(found) if found.schema.names == [_VALUE] else dicts(found)


def _columns(values: Sequence[Any]) -> pa.RecordBatch:
    first = values[0]
    try:
        if isinstance(first, dict):
            return pa.RecordBatch.from_pylist(list(values))
        names = row_fields(type(first))
        if names is not None:
            return pa.RecordBatch.from_pydict({name: [getattr(value, name) for value in values] for name in names})
        return pa.RecordBatch.from_pydict({_VALUE: list(values)})
    except pa.ArrowException as error:
        raise WrongSchemaError(
            f"Rows cannot be put in columns: {str(error)[:200]}.", "Give all rows the same columns and types."
        ) from None


def _whole(found: Any) -> pa.RecordBatch:
    """One batch, however many parts it has."""
    if isinstance(found, pa.RecordBatch):
        return found
    if not isinstance(found, pa.Table):
        raise WrongSchemaError(
            f"A batch function gives a batch of the kind it got, found {type(found).__name__}.",
            "Return a RecordBatch or Table, or a DataFrame of the library you asked for.",
        )
    batches = found.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=found.schema)


def _same(batch: Any) -> Any:
    return batch


def _to_pandas(batch: Any) -> Any:
    return batch.to_pandas()


def _from_pandas(frame: Any) -> Any:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _to_polars(batch: Any) -> Any:
    import polars as pl  # noqa: PLC0415 - only where it is used

    return pl.from_arrow(batch)


def _from_polars(frame: Any) -> Any:
    table = frame.to_arrow()
    plain = [pa.field(field.name, _plain(field.type)) for field in table.schema]
    return table.cast(pa.schema(plain))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Polars' own variants of strings as everyone else has them."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


_KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "arrow": (_same, _same),
    "pandas": (_to_pandas, _from_pandas),
    "polars": (_to_polars, _from_polars),
}
