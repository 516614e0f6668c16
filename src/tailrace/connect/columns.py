"""Rows to Arrow columns and back, with every row held against its schema.

The DataFrame source, the table sink and ``map_batches`` use it. Works on whole batches, because a call per cell is what
makes Python slow here: columns become lists in one C call each.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .errors import MissingColumnError, NullValueError, WrongSchemaError
from .schemas import arrow_schema, row_fields

if TYPE_CHECKING:
    from collections.abc import Sequence


def column_values(column: pa.Array) -> list[Any]:
    """A column as Python values; through numpy where that gives the same, because it is several times faster."""
    kind = column.type
    plain = pa.types.is_string(kind) or (
        column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind))
    )
    found: list[Any] = column.to_numpy(zero_copy_only=False).tolist() if plain else column.to_pylist()
    return found


def dicts(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dicts by column name."""
    names = batch.schema.names
    rows = zip(*map(column_values, batch.columns), strict=True)
    # Written out for narrow rows, which are most: a dict display takes half the time of dict(zip(...)).
    match names:
        case [one]:
            return [{one: a} for (a,) in rows]
        case [one, two]:
            return [{one: a, two: b} for a, b in rows]
        case [one, two, three]:
            return [{one: a, two: b, three: c} for a, b, c in rows]
        case [one, two, three, four]:
            return [{one: a, two: b, three: c, four: d} for a, b, c, d in rows]
        case _:
            return [dict(zip(names, row, strict=True)) for row in rows]


def bare(batch: pa.RecordBatch) -> list[Any]:
    """The values of a single column, as they are."""
    return column_values(batch.column(0))


class Objects:
    """Rows as objects of a dataclass, msgspec Struct or NamedTuple."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.names = row_fields(cls) or ()
        self._required = [field.name for field in arrow_schema(cls) if not field.nullable] if self.names else []
        if not self.names:
            raise WrongSchemaError(
                f"Rows become dicts, objects of a class with typed fields or Arrow batches; found {cls!r}.",
                "Give a dataclass or a msgspec Struct, 'dict', 'value' or 'arrow'.",
            )

    def __call__(self, batch: pa.RecordBatch) -> list[Any]:
        """Make an object per row."""
        check_nulls(batch, self._required, f"{self.cls.__name__} says it is never None")
        columns = [column_values(batch.column(name)) for name in self.names]
        try:
            return list(map(self.cls, *columns))
        except TypeError:  # a class that takes its fields by name only
            return [self.cls(**dict(zip(self.names, row, strict=True))) for row in zip(*columns, strict=True)]


def check_nulls(batch: pa.RecordBatch, required: Sequence[str], why: str) -> None:
    """Refuse nulls where none may be."""
    for name in required:
        if batch.column(name).null_count:
            raise NullValueError(
                f"Column {name!r} has a null in {batch.column(name).null_count} of {batch.num_rows} rows; {why}.",
                "Fill it in or filter such rows out, or declare the column nullable.",
            )


class ToColumns:
    """Turns rows of one schema into record batches; a row that does not fit is a named error."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._names = schema.names
        self._required = [field.name for field in schema if not field.nullable]

    def __call__(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Convert rows: dicts, objects with fields, tuples, or bare values where there is one column."""
        columns = self._columns(rows)
        arrays = [self._array(field, column) for field, column in zip(self.schema, columns, strict=True)]
        return self.checked(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def _columns(self, rows: Sequence[Any]) -> list[list[Any]]:
        first = rows[0]
        if isinstance(first, dict):
            return self._dict_columns(rows)
        if isinstance(first, tuple | list) and not hasattr(first, "_fields"):
            self._check_widths(rows)
            return [list(column) for column in zip(*rows, strict=True)]
        if row_fields(type(first)) is not None:
            return [self._attribute(name, rows) for name in self._names]
        if len(self._names) == 1:
            return [list(rows)]
        raise WrongSchemaError(
            f"A row of {len(self._names)} columns is a dict, an object with fields or a tuple; found {first!r:.80}.",
            f"Give the columns {', '.join(self._names)}.",
        )

    def _dict_columns(self, rows: Sequence[Any]) -> list[list[Any]]:
        try:
            columns = [list(map(operator.itemgetter(name), rows)) for name in self._names]
        except KeyError as error:
            raise self._missing(error.args[0], next(row for row in rows if error.args[0] not in row)) from None
        if set(map(len, rows)) != {len(self._names)}:
            row = next(row for row in rows if len(row) != len(self._names))
            extra = next(name for name in row if name not in self._names)
            raise WrongSchemaError(
                f"A row has the column {extra!r}, which its schema has not: {row!r:.120}.",
                "Leave it out of the row, or add it to the schema.",
            )
        return columns

    def _attribute(self, name: str, rows: Sequence[Any]) -> list[Any]:
        try:
            return list(map(operator.attrgetter(name), rows))
        except AttributeError:
            raise self._missing(name, rows[0]) from None

    def _missing(self, name: str, row: Any) -> MissingColumnError:
        return MissingColumnError(
            f"A row lacks the column {name!r}: {row!r:.120}.",
            "Give every column of the schema; None stands for a null where one may be.",
        )

    def _check_widths(self, rows: Sequence[Any]) -> None:
        widths = set(map(len, rows))
        if widths != {len(self._names)}:
            raise MissingColumnError(
                f"A row has {len(self._names)} columns, found a tuple of {(widths - {len(self._names)}).pop()}.",
                f"Give them in this order: {', '.join(self._names)}.",
            )

    @staticmethod
    def _array(field: pa.Field, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, field.type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise WrongSchemaError(
                f"Column {field.name!r} is {field.type}; a value is not: {str(error)[:200]}.",
                "Convert it before the output, or declare another type.",
            ) from None

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Refuse nulls where none may be."""
        check_nulls(batch, self._required, "its schema says not null")
        return batch

    def fitted(self, batch: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
        """Bring Arrow batches a user made to the schema: columns by name, casts where nothing is lost."""
        for name in self._names:
            if name not in batch.schema.names:
                raise MissingColumnError(
                    f"A batch lacks the column {name!r}; it has {', '.join(batch.schema.names)}.",
                    "Give every column of the schema.",
                )
        try:
            table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            table = table.select(self._names).cast(_all_nullable(self.schema))
        except (pa.ArrowException, ValueError) as error:
            raise WrongSchemaError(
                f"A batch does not fit the schema: {str(error)[:200]}.", "Cast its columns before the output."
            ) from None
        return [
            self.checked(pa.RecordBatch.from_arrays(each.columns, schema=self.schema)) for each in table.to_batches()
        ]


def _all_nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
