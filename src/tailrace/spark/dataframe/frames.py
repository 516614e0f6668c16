"""What is looked at before a DataFrame feeds a topology, each obstacle with a name: session, columns, types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.connect.errors import ConnectorOptionError, MissingColumnError, UnreadableTypeError, WrongSchemaError
from tailrace.connect.schemas import arrow_schema

from ..checks import context_of, slots_of
from ..errors import OtherSessionError, SparkConnectError

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.connect.dataframe import DataFrameSource

LANES_MAX = 64


def check_frame(df: Any) -> None:
    """Refuse what is no DataFrame of a classic session."""
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise SparkConnectError(
            "A DataFrame of a classic session is needed, whose driver is this process; found one of Spark Connect.",
            "Run this program with spark-submit or with SparkSession.builder.master(...) instead of .remote(...).",
        )
    if not hasattr(df, "mapInArrow") or not hasattr(df, "sparkSession"):
        raise ConnectorOptionError(
            f"A Spark DataFrame is needed, found {type(df).__name__}.", "Give spark.read... or so."
        )


def check_session_of(df: Any, spark: Any) -> None:
    """Refuse a DataFrame of another session than the one that hosts the query."""
    check_frame(df)
    context_of(spark)
    mine, its = spark._jsparkSession, df.sparkSession._jsparkSession  # noqa: SLF001 - Python's wrappers are not unique
    if not its.equals(mine):
        raise OtherSessionError(
            "The DataFrame belongs to another session than the query.",
            "Read it with the session that the query is started on, or start with spark=df.sparkSession.",
        )


def prepare(source: DataFrameSource, spark: Any) -> None:
    """Check a source against its DataFrame, and settle how many lanes it has."""
    check_session_of(source.df, spark)
    source.lanes = max(2, min(LANES_MAX, 2 * slots_of(spark.sparkContext)))
    check_readable(source.df.schema)
    names = source.df.columns
    if source.form == "value" and len(names) != 1:
        raise WrongSchemaError(
            f"Bare values come of one column, and the DataFrame has {len(names)}: {', '.join(names)}.",
            "Select one column, or take rows as dicts.",
        )
    if isinstance(source.form, type):
        wanted = arrow_schema(source.form)
        check_columns(source.form.__name__, wanted, arrow_schema(source.df.schema))
        source.df = source.df.select(*wanted.names)


def check_readable(schema: Any) -> None:
    """Refuse columns of types that have no values outside of Spark, before one of its tasks meets them."""
    for field in schema.fields:
        try:
            arrow_schema(type(schema)([field]))
        except UnreadableTypeError as error:  # noqa: PERF203 - a schema is short
            raise UnreadableTypeError(f"Column {field.name!r}: {error.message}", error.hint) from None
        except WrongSchemaError:  # a type that only schemas of users cannot name: Spark hands it over all the same
            continue


def check_columns(what: str, wanted: pa.Schema, found: pa.Schema) -> None:
    """Refuse a DataFrame that lacks columns of a class, or has them of another type."""
    for field in wanted:
        if field.name not in found.names:
            raise MissingColumnError(
                f"{what} needs the column {field.name!r}; the DataFrame has {', '.join(found.names)}.",
                "Select or rename columns so that every field has one.",
            )
        have = found.field(field.name).type
        if not _fits(have, field.type):
            raise WrongSchemaError(
                f"{what}.{field.name} is {field.type}, and the column is {have}.",
                "Cast the column, or change the type.",
            )


def _fits(have: pa.DataType, wanted: pa.DataType) -> bool:
    import pyarrow.types as kinds  # noqa: PLC0415 - only where classes are used

    if have == wanted or (kinds.is_integer(have) and (kinds.is_integer(wanted) or kinds.is_floating(wanted))):
        return True
    same = (kinds.is_floating, kinds.is_decimal, kinds.is_timestamp, kinds.is_nested)
    return any(of(have) and of(wanted) for of in same)
