"""What can be wrong with a DataFrame and its rows, each under its own name; dead letters by choice; lookups."""

from __future__ import annotations

import dataclasses

import pytest
from pyspark import cloudpickle
from tests import sparks
from tests.queries import PATIENT, ended, ending, until

import tailrace as tr
from tailrace.connect.errors import LookupTableError, MissingColumnError, NullValueError, WrongSchemaError
from tailrace.spark import checks
from tailrace.spark.errors import NotApplicableError, OtherSessionError, SlotsError

pytestmark = pytest.mark.spark


@pytest.fixture
def spark(request):
    cloudpickle.register_pickle_by_value(request.module)
    return sparks.session()


@dataclasses.dataclass
class Order:
    id: int
    text: str


def flow_of(source, sink=None):
    flow = tr.Topology("orders")
    flow.source(source).sink(sink or tr.sinks.discard())
    return flow


def started(spark, source, sink=None, **options):
    return tr.start(flow_of(source, sink), spark=spark, workers=2, settings=tr.Settings(**PATIENT), **options)


def test_slots_for_workers_and_the_dataframe_must_fit_side_by_side(spark, monkeypatch):
    monkeypatch.setattr(checks, "_SLOTS_WAIT_S", 0.5)
    flow = flow_of(tr.sources.dataframe(spark.range(10)))
    with pytest.raises(SlotsError, match=r"4 workers and 1 more .* need 5 .* has 4"):
        tr.start(flow, spark=spark, workers=4)


def test_a_dataframe_of_another_session_is_named(spark):
    other = spark.newSession().range(10)
    with pytest.raises(OtherSessionError, match="another session"):
        started(spark, tr.sources.dataframe(other))
    flow = tr.Topology("other")
    flow.input().output("id long")
    with pytest.raises(OtherSessionError):
        flow.apply(other, spark=spark)


@pytest.mark.parametrize(
    ("columns", "error", "told"),
    [
        (["id"], MissingColumnError, "'text'"),
        (["cast(id as string) as id", "'a' as text"], WrongSchemaError, "Order.id"),
    ],
)
def test_columns_are_held_against_the_class(spark, columns, error, told):
    df = spark.range(10).selectExpr(*columns)
    with pytest.raises(error, match=told):
        started(spark, tr.sources.dataframe(df, Order))
    flow = tr.Topology("class")
    flow.input(Order).map(lambda order: order.id).output("id long")
    with pytest.raises(error, match=told):
        flow.apply(df)


def test_a_null_where_the_class_has_none_ends_the_query(spark):
    df = spark.range(10).selectExpr("id", "if(id = 7, null, 'a') as text")
    with (
        ending(started(spark, tr.sources.dataframe(df, Order))) as query,
        pytest.raises(NullValueError, match="'text'"),
    ):
        ended(query)


def test_rows_that_do_not_fit_the_table_end_the_query_or_are_dead_letters(spark, tmp_path):
    df = spark.range(100).selectExpr("if(id % 10 = 3, null, id) as id")
    with (
        ending(started(spark, tr.sources.dataframe(df), tr.sinks.table(tmp_path / "a", "id long not null"))) as query,
        pytest.raises(NullValueError, match="'id'"),
    ):
        ended(query)
    assert spark.read.format("tailrace").option("query", str(tmp_path / "a")).load().count() == 0
    flow, dead = tr.Topology("dead"), tr.sinks.collect()
    table = tr.sinks.table(tmp_path / "b", "id long not null")
    sunk = flow.source(tr.sources.dataframe(df)).sink(table, on_error="dead_letter")
    sunk.dead_letters().map(lambda letter: letter.error).sink(dead)
    with ending(tr.start(flow, spark=spark, workers=2)) as query:
        ended(query)
    found = spark.read.format("tailrace").option("query", str(tmp_path / "b")).load()
    assert sorted(row.id for row in found.collect()) == [n for n in range(100) if n % 10 != 3]
    assert len(dead.values) == 10
    assert all("NullValueError" in error for error in dead.values)


def test_what_cannot_be_applied_is_named(spark):
    flow = tr.Topology("ends")
    flow.source(tr.sources.items([1])).sink(tr.sinks.discard())
    with pytest.raises(NotApplicableError, match=r"one flow\.input"):
        flow.apply(spark.range(3))
    flow = tr.Topology("keyed")
    flow.input("value").key_by(lambda v: v % 2).count().output("key long, n long")
    with pytest.raises(NotApplicableError, match="may keep state"):
        flow.apply(spark.range(3), inside="tasks")
    with pytest.raises(NotApplicableError, match="streaming"):
        flow.apply(spark.readStream.format("rate").load())
    with pytest.raises(WrongSchemaError, match="one column"):
        flow.apply(spark.range(3).selectExpr("id", "id as more"), workers=2)
    with pytest.raises(tr.TailraceError, match=r"flow.input\(\) stands for a DataFrame"):
        tr.start(flow, spark=spark)


def test_a_lookup_is_read_in_operators_and_refreshed_while_the_query_runs(spark, tmp_path):
    path = str(tmp_path / "names")

    def write(mark):
        spark.range(3).selectExpr("id", f"concat('{mark}', id) as name").write.mode("overwrite").parquet(path)

    write("old")
    names = tr.lookup(lambda: spark.read.parquet(path), "id", value="name", refresh_s=0.3)
    flow, out = tr.Topology("enrich"), tr.sinks.collect()
    flow.source(tr.sources.rate(50)).map(lambda n: names.get(n % 4, "none")).sink(out)
    with ending(tr.start(flow, spark=spark, workers=2, settings=tr.Settings(**PATIENT))) as query:
        until(lambda: {"old0", "old1", "old2", "none"} <= set(out.values), "the old names", query)
        write("new")
        until(lambda: {"new0", "new1", "new2"} <= set(out.values), "the new names", query)
    with pytest.raises(LookupTableError, match="comes twice"):
        len(tr.lookup(spark.sql("select 1 as id union all select 1"), "id"))
    with pytest.raises(LookupTableError, match="no column 'key'"):
        tr.lookup(spark.range(3), "key")
