"""Column types that Spark has: read by a topology, or named with the cast to use."""

from __future__ import annotations

import datetime as dt

import pytest
from tests import sparks

import tailrace as tr
from tailrace.connect.errors import UnreadableTypeError

pytestmark = pytest.mark.spark


def test_intervals_char_and_void_are_read_and_written():
    spark = sparks.session("local[4]")
    columns = "interval '1 02:00:00' day to second as took, cast('abc' as varchar(9)) as text, null as nothing"
    df = spark.sql(f"select {columns}")
    flow = tr.Topology("types")
    flow.input().map(lambda row: {"took": row["took"] * 2, "text": f"{row['text']} {row['nothing']}"}).output(
        "took interval day to second, text varchar(20)"
    )
    (row,) = flow.apply(df).collect()
    assert (row.took, row.text) == (dt.timedelta(days=2, hours=4), "abc None")


@pytest.mark.parametrize(
    ("column", "cast"),
    [
        ("parse_json('1')", "to_json"),
        ("interval '1-2' year to month", "MONTH FROM"),
        ("array(parse_json('1'))", "to_json"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_cast(column, cast):
    df = sparks.session("local[4]").sql(f"select {column} as odd")
    flow = tr.Topology("odd")
    flow.input().map(lambda row: {"n": 1}).output("n long")
    with pytest.raises(UnreadableTypeError, match="Column 'odd'") as caught:
        flow.apply(df)
    assert cast in caught.value.hint
