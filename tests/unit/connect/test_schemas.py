"""Schemas from DDL, StructTypes and classes, and rows held against them."""

from __future__ import annotations

import dataclasses
import datetime as dt  # noqa: TC003 - read when the schema is
from typing import NamedTuple, TypedDict

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from tailrace.connect.columns import Objects, ToColumns, column_values, dicts
from tailrace.connect.ddl import parse_ddl, write_ddl
from tailrace.connect.errors import MissingColumnError, NullValueError, WrongSchemaError
from tailrace.connect.schemas import arrow_schema

BASES = ["string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "binary", "date", "timestamp"]
types = st.recursive(
    st.sampled_from([*BASES, "timestamp_ntz", "decimal(12,3)"]),
    lambda inner: st.one_of(
        inner.map(lambda kind: f"array<{kind}>"),
        st.tuples(st.sampled_from(BASES), inner).map(lambda pair: f"map<{pair[0]},{pair[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: "struct<" + ",".join(f"`f{i}`:{kind}" for i, kind in enumerate(kinds)) + ">"
        ),
    ),
    max_leaves=6,
)


@given(st.lists(st.tuples(types, st.booleans()), min_size=1, max_size=5))
def test_ddl_survives_being_read_and_written(fields):
    text = ", ".join(f"`c{i}` {kind}{'' if null else ' NOT NULL'}" for i, (kind, null) in enumerate(fields))
    assert write_ddl(parse_ddl(text)) == text


@pytest.mark.parametrize(
    "text", ["", "id", "id wat", "id long,", "a array<int", "a struct<>", "id long not", "a int; b int"]
)
def test_ddl_that_is_none_is_named(text):
    with pytest.raises(WrongSchemaError, match="cannot be read"):
        parse_ddl(text)


@dataclasses.dataclass
class Point:
    x: int
    name: str | None
    at: dt.datetime
    tags: list[str]


class Order(msgspec.Struct):
    id: int
    text: str
    weight: float = 1.0


class Pair(NamedTuple):
    id: int
    text: str


class Loose(TypedDict):
    id: int
    text: str | None


def test_classes_have_schemas_and_only_optional_fields_may_be_null():
    wanted = parse_ddl("x long not null, name string, at timestamp not null, tags array<string> not null")
    assert arrow_schema(Point).equals(wanted)
    assert arrow_schema(Loose).equals(parse_ddl("id long not null, text string"))


def test_a_spark_schema_is_read_without_a_jvm():
    schema = StructType([StructField("id", LongType(), nullable=False), StructField("t", ArrayType(StringType()))])
    assert arrow_schema(schema).equals(parse_ddl("id long not null, t array<string>"))


@pytest.mark.parametrize("declared", [42, object, int, None])
def test_what_is_no_schema_is_named(declared):
    with pytest.raises(WrongSchemaError):
        arrow_schema(declared)


# -- rows ----------------------------------------------------------------------------------------------------------

SCHEMA = parse_ddl("id long not null, text string")
ROWS = [{"id": 1, "text": "a"}, {"id": 2, "text": None}]


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        [(1, "a"), (2, None)],
        [Pair(1, "a"), Pair(2, None)],
        [[1, "a"], [2, None]],
        [Order(1, "a"), Order(2, None)],
    ],
    ids=["dicts", "tuples", "named", "lists", "structs"],
)
def test_rows_of_every_form_become_the_same_columns(rows):
    assert dicts(ToColumns(SCHEMA)(rows)) == ROWS


def test_bare_values_make_a_single_column():
    assert dicts(ToColumns(parse_ddl("n long"))([1, 2])) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("rows", "error", "told"),
    [
        ([{"id": 1}], MissingColumnError, "'text'"),
        ([(1,)], MissingColumnError, "tuple of 1"),
        ([{"id": 1, "text": "a", "more": 2}], WrongSchemaError, "'more'"),
        ([{"id": "one", "text": "a"}], WrongSchemaError, "'id'"),
        ([{"id": 1, "text": 5}], WrongSchemaError, "'text'"),
        ([{"id": 2**70, "text": "a"}], WrongSchemaError, "'id'"),
        ([{"id": None, "text": "a"}], NullValueError, "'id'"),
        (["alone"], WrongSchemaError, "2 columns"),
    ],
)
def test_rows_that_do_not_fit_are_named(rows, error, told):
    with pytest.raises(error, match=told):
        ToColumns(SCHEMA)([{"id": 0, "text": "fits"}, *rows] if isinstance(rows[0], dict) else rows)


def test_batches_are_brought_to_the_schema_by_name():
    batch = pa.RecordBatch.from_pydict({"text": ["a"], "id": pa.array([1], pa.int32()), "more": [0]})
    assert dicts(ToColumns(SCHEMA).fitted(batch)[0]) == [{"id": 1, "text": "a"}]
    with pytest.raises(MissingColumnError, match="'text'"):
        ToColumns(SCHEMA).fitted(batch.drop_columns(["text"]))
    with pytest.raises(NullValueError, match="'id'"):
        ToColumns(SCHEMA).fitted(pa.RecordBatch.from_pydict({"id": [None], "text": ["a"]}))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.none()))
def test_numbers_come_back_as_they_were(values):
    assert column_values(pa.array(values, pa.int64())) == values


@given(st.lists(st.text() | st.none()))
def test_texts_come_back_as_they_were(values):
    assert column_values(pa.array(values, pa.string())) == values


def test_objects_are_made_of_rows_and_a_null_where_none_may_be_is_named():
    batch = pa.RecordBatch.from_pydict({"id": [1, 2], "text": ["a", "b"], "weight": [0.5, 1.5]})
    assert Objects(Order)(batch) == [Order(1, "a", 0.5), Order(2, "b", 1.5)]
    with pytest.raises(NullValueError, match="Order says it is never None"):
        Objects(Order)(pa.RecordBatch.from_pydict({"id": [1], "text": [None], "weight": [1.0]}, schema=batch.schema))


@pytest.mark.parametrize("units", ["day to second", "day", "hour to minute", "second"])
def test_day_time_intervals_are_durations(units):
    assert arrow_schema(f"took interval {units}, n int").field("took").type == pa.duration("us")


def test_char_varchar_and_void_have_a_form():
    found = arrow_schema("a char(3), b varchar(9) not null, c void, d array<varchar(2)>")
    assert found.types == [pa.string(), pa.string(), pa.null(), pa.list_(pa.string())]
    assert write_ddl(arrow_schema("took interval day to second, c void")) == ("`took` interval day to second, `c` void")


@pytest.mark.parametrize(
    ("kind", "cast"),
    [
        ("variant", "to_json"),
        ("interval year to month", "MONTH FROM"),
        ("interval", "seconds"),
        ("interval month", "* 12"),
    ],
)
def test_what_has_no_values_is_named_with_the_cast_to_use(kind, cast):
    for ddl in (f"x {kind}", f"x array<{kind}>", f"x struct<y:{kind}>"):
        with pytest.raises(WrongSchemaError, match="cannot be read by a topology") as caught:
            arrow_schema(ddl)
        assert cast in caught.value.hint
