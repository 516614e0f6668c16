"""Schemas of rows, as Arrow knows them: read from Spark's DDL, from a StructType, or from the types of a class.

Used where rows leave or enter a topology as columns. Pure; needs pyarrow but no Spark, because workers have no JVM.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import types
import typing
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa

from .ddl import parse_ddl
from .errors import WrongSchemaError

_OF_PYTHON: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.date: pa.date32(),
    dt.datetime: pa.timestamp("us", tz="UTC"),
    decimal.Decimal: pa.decimal128(38, 18),
}


def arrow_schema(declared: Any) -> pa.Schema:
    """Read a schema from what a user may write: DDL text, a StructType, an Arrow schema, or a class with types."""
    if isinstance(declared, pa.Schema):
        return declared
    if isinstance(declared, str):
        return parse_ddl(declared)
    if isinstance(declared, type) and row_fields(declared) is not None:
        return pa.schema(_class_fields(declared))
    if hasattr(declared, "simpleString") and hasattr(declared, "fields"):  # PySpark's, without importing it
        return pa.schema([_spark_field(field) for field in declared.fields])
    raise WrongSchemaError(
        f"A schema is DDL text, a StructType, an Arrow schema or a class with typed fields; found {declared!r}.",
        'Write for example "id long not null, text string".',
    )


def _spark_field(field: Any) -> pa.Field:
    return parse_ddl(f"`{field.name}` {field.dataType.simpleString()}").field(0).with_nullable(field.nullable)


def row_fields(cls: Any) -> tuple[str, ...] | None:
    """The fields of a dataclass, msgspec Struct, NamedTuple or TypedDict, in order; None for any other class."""
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    if isinstance(cls, type) and issubclass(cls, msgspec.Struct):
        return cls.__struct_fields__
    if isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple(cls._fields)
    return tuple(get_type_hints(cls)) if typing.is_typeddict(cls) else None


def _class_fields(cls: type) -> list[pa.Field]:
    hints = get_type_hints(cls)
    fields = []
    for name in row_fields(cls) or ():
        kind, nullable = _without_none(hints[name])
        fields.append(pa.field(name, python_type(f"{cls.__name__}.{name}", kind), nullable=nullable))
    return fields


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) in {Union, types.UnionType}:
        rest = [each for each in get_args(hint) if each is not type(None)]
        if len(rest) == 1:
            return rest[0], len(rest) < len(get_args(hint))
    return hint, False


def python_type(where: str, hint: Any) -> pa.DataType:
    """The type of a column for values of a Python type."""
    if hint in _OF_PYTHON:
        return _OF_PYTHON[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in {list, tuple, set, frozenset} and args:
        return pa.list_(python_type(where, _without_none(args[0])[0]))
    if origin is dict and args:
        return pa.map_(python_type(where, args[0]), python_type(where, _without_none(args[1])[0]))
    if isinstance(hint, type) and row_fields(hint) is not None:
        return pa.struct(_class_fields(hint))
    raise WrongSchemaError(
        f"{where} has the type {hint!r}, for which columns have no form.",
        "Use int, float, str, bool, bytes, date, datetime, Decimal, or lists, dicts and classes of these.",
    )
