"""Spark's DDL for schemas, to Arrow and back: ``id long not null, tags array<string>``.

Spark's own parser lives in the JVM, which workers do not have. Reads what ``StructType.simpleString`` writes too.
"""

from __future__ import annotations

import re

import pyarrow as pa

from .errors import UnreadableTypeError, WrongSchemaError

_BASE: dict[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
#: Types that Spark has and Arrow's Python has no values for, with the cast that gives one that has.
_CASTS = {
    "variant": "to_json(column), and json.loads in the topology",
    "year-month interval": "extract(YEAR FROM column) * 12 + extract(MONTH FROM column)",
    "calendar interval": "make_dt_interval(...) or a number of seconds",
}
_NAMES = {
    pa.string(): "string",
    pa.large_string(): "string",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.duration("us"): "interval day to second",
    pa.null(): "void",
}
_UNITS = frozenset({"day", "hour", "minute", "second", "year", "month"})
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z_0-9]+|[<>(),:])")


def parse_ddl(text: str) -> pa.Schema:
    """Read a schema from DDL."""
    parser = _Parser(text)
    fields = parser.fields()
    parser.expect_end()
    return pa.schema(fields)


class _Parser:
    """Reads one text, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._error(f"{text[at:].strip()[:20]!r}")
            self._tokens.append(found[1])
            at = found.end()

    def _error(self, found: str) -> WrongSchemaError:
        return WrongSchemaError(
            f"The schema {self._text!r} cannot be read at {found}.",
            'Write for example "id long not null, text string".',
        )

    def _next(self, wanted: str = "") -> str:
        if not self._tokens:
            raise self._error("its end")
        token = self._tokens.pop(0)
        if wanted and token != wanted:
            raise self._error(repr(token))
        return token

    def _peek(self) -> str:
        return self._tokens[0].lower() if self._tokens else ""

    def expect_end(self) -> None:
        """Refuse anything more."""
        if self._tokens:
            raise self._error(repr(self._tokens[0]))

    def fields(self) -> list[pa.Field]:
        """Read fields up to the end or a closing bracket."""
        found = [self._field()]
        while self._peek() == ",":
            self._next()
            found.append(self._field())
        return found

    def _field(self) -> pa.Field:
        name = self._next()
        if name in set("<>(),:"):
            raise self._error(repr(name))
        if self._peek() == ":":
            self._next()
        kind = self._type()
        nullable = True
        if self._peek() == "not":
            self._next()
            if self._next().lower() != "null":
                raise self._error("'not'")
            nullable = False
        return pa.field(name.strip("`").replace("``", "`"), kind, nullable=nullable)

    def _type(self) -> pa.DataType:
        name = self._next().lower()
        if name in _BASE:
            return _BASE[name]
        if name in {"decimal", "dec", "numeric"}:
            return self._decimal()
        if name in {"char", "varchar"}:
            self._length()
            return pa.string()
        if name == "interval":
            return self._interval()
        if name == "variant":
            raise no_values("variant")
        if name not in {"array", "map", "struct"}:
            raise self._error(repr(name))
        self._next("<")
        if name == "array":
            kind = pa.list_(self._type())
        elif name == "map":
            key = self._type()
            self._next(",")
            kind = pa.map_(key, self._type())
        else:
            kind = pa.struct(self.fields())
        self._next(">")
        return kind

    def _length(self) -> None:
        self._next("(")
        self._next()
        self._next(")")

    def _interval(self) -> pa.DataType:
        """Read the units of an interval: days to seconds are a duration, years and months have no length."""
        units = []
        while self._peek() in _UNITS or self._peek() == "to":
            units.append(self._next().lower())
        if not units:
            raise no_values("calendar interval")
        if {"year", "month"} & set(units):
            raise no_values("year-month interval")
        return pa.duration("us")

    def _decimal(self) -> pa.DataType:
        if self._peek() != "(":
            return pa.decimal128(10, 0)
        self._next("(")
        precision, scale = int(self._next()), 0
        if self._peek() == ",":
            self._next()
            scale = int(self._next())
        self._next(")")
        return pa.decimal128(precision, scale)


def no_values(kind: str) -> UnreadableTypeError:
    """Say which type cannot be read, and the cast that helps."""
    return UnreadableTypeError(
        f"Columns of Spark's type {kind} cannot be read by a topology: Arrow has no Python values for them.",
        f"Cast the column first: {_CASTS[kind]}.",
    )


def write_ddl(schema: pa.Schema) -> str:
    """Write a schema as DDL, for Spark."""
    return ", ".join(
        f"`{field.name.replace('`', '``')}` {_type_name(field.type)}{'' if field.nullable else ' NOT NULL'}"
        for field in schema
    )


def _type_name(kind: pa.DataType) -> str:
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_type_name(kind.key_type)},{_type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        inner = ",".join(f"`{field.name}`:{_type_name(field.type)}" for field in kind)
        return f"struct<{inner}>"
    raise WrongSchemaError(f"Spark has no type for Arrow's {kind}.", "Cast the column to a type that Spark has.")
