"""``tr.start``: the front door. Checks the topology and the settings, finds or starts Spark, and starts the query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .checkpoint.savepoint import Savepoint
from .checkpoint.settings import Checkpoint
from .config import check_workers, policy_of, settings_of
from .connect.arrow import need_arrow
from .connect.lookup import ROWS_MAX, make_lookup
from .coordinator.query import Query
from .coordinator.resumption import check_durable, check_restore
from .metrics.page import check_port
from .topology import graph
from .topology.beside import ship_beside_script
from .topology.validate import check_ends

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from .config import Policy, Settings
    from .connect.lookup import Lookup
    from .spark.dataframe.feed import Feeds
    from .spark.host import SparkHost
    from .topology.graph import Topology


def register(spark: Any) -> None:
    """Make ``format("tailrace")`` and ``format("tailrace-state")`` known to a session.

    ``tr.start`` does it for topologies that write tables.
    """
    need_arrow()
    from .spark.checks import context_of  # noqa: PLC0415 - only where Spark is used
    from .spark.dataframe.datasource import register as register_source  # noqa: PLC0415

    context_of(spark)
    register_source(spark)


def lookup(
    df: Any,
    key: str | tuple[str, ...],
    *,
    value: str | None = None,
    refresh_s: float | None = None,
    rows_max: int = ROWS_MAX,
) -> Lookup:
    """Make a lookup table of a static DataFrame, for functions of operators to read like a dict.

    ``table[key]`` and ``table.get(key)`` give the row as a dict, or the column ``value`` of it. With ``refresh_s`` it
    is collected again so often; give a function that makes the DataFrame where new files are to be found.
    """
    return make_lookup(df, key, value=value, refresh_s=refresh_s, rows_max=rows_max)


def _writes_tables(flow: Topology) -> bool:
    return any(spec.kind == "sink" and getattr(spec.fn, "label", "") == "table" for spec in flow.operators.values())


def _frames(flow: Topology) -> list[Any]:
    """The DataFrame sources of a topology; only those need Arrow and the rest of the DataFrame side."""
    labels = {getattr(spec.fn, "label", "") for spec in flow.operators.values()}
    if not labels & {"dataframe", "table"}:
        return []
    from .spark.dataframe.feed import dataframes_of, decide_commits  # noqa: PLC0415
    from .spark.dataframe.frames import check_frame  # noqa: PLC0415

    decide_commits(flow)
    found = list(dataframes_of(flow).values())
    for source in found:
        check_frame(source.df)
    return found


def _feeds(spark: Any, flow: Topology, fed: list[Any], settings: Settings, host: SparkHost) -> Feeds:
    from .spark.dataframe.feed import Feeds  # noqa: PLC0415
    from .spark.dataframe.frames import prepare  # noqa: PLC0415

    for source in fed:
        prepare(source, spark)
    return Feeds(spark, flow, settings, (host.driver_host, host.bind_host))


def _apply(flow: Topology, df: Any, **how: Any) -> Any:
    check_workers(how.get("workers"))
    how |= {"policy": policy_of(how.get("policy")), "settings": settings_of(how.get("settings"))}
    need_arrow()
    from .spark.dataframe.apply import apply  # noqa: PLC0415 - only with pyarrow and Spark

    return apply(start, flow, df, **how)


graph.applier = _apply


def start(
    flow: Topology,
    spark: Any = None,
    *,
    workers: int | None = None,
    policy: Policy | Mapping[str, str] | str | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    restore: Savepoint | str | os.PathLike[str] | None = None,
) -> Query:
    """Run a topology on Spark and return once all workers are open.

    Without a session the active one is used, or an embedded ``local-cluster`` is started and ended with the query.
    ``workers`` is how many of the application's task slots are taken, one per core if not given. Without a policy,
    routing, inboxes and replays are chosen while the query runs (``Policy.auto()``, or by its name ``"auto"``). A
    mapping does in place of a policy or of settings; it names what is to differ. With a ``checkpoint``, a folder or a
    ``tr.Checkpoint``, state survives the loss of workers and of the driver: a start with the same one goes on from it.
    ``restore``, a savepoint's path or a ``tr.Savepoint``, is what an empty checkpoint begins from; a start after that,
    with the same arguments, goes on from the checkpoint.
    """
    ship_beside_script()
    check_workers(workers)
    policy, settings = policy_of(policy), settings_of(settings)
    flow.validate()
    check_ends(flow, durable=checkpoint is not None)
    durable = checkpoint if checkpoint is None or isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
    savepoint = restore if restore is None or isinstance(restore, Savepoint) else Savepoint(restore)
    check_restore(durable, savepoint)
    if durable is not None:
        check_durable(flow, policy)
    from .spark.checks import context_of  # noqa: PLC0415
    from .spark.host import SparkHost  # noqa: PLC0415 - only here, so that drawing a topology needs no Spark
    from .spark.lookup_refresh import Refresher, lookups_of  # noqa: PLC0415
    from .spark.session import check_java, default_workers, embedded, end_embedded  # noqa: PLC0415

    workers = workers or default_workers()
    check_port(settings.prometheus_port)  # before Spark takes its seconds to start
    check_java()
    fed = _frames(flow)
    if spark is None and fed:
        spark = fed[0].df.sparkSession
    own = None
    if spark is None:
        from pyspark.sql import SparkSession  # noqa: PLC0415

        spark = SparkSession.getActiveSession()
        if spark is None:
            spark = own = embedded(workers)
    context_of(spark)  # what cannot host is refused before anything of it is used
    query = None
    try:
        if _writes_tables(flow):
            register(spark)
        lookups = lookups_of(flow)
        host = SparkHost(spark, workers, settings, beside=1 if fed or lookups else 0)
        feeds = _feeds(spark, flow, fed, settings, host) if fed else None
        query = Query(flow, host, policy, host.sized(settings), durable, savepoint)
        if feeds is not None:
            feeds.join(query)
        if lookups:
            query.accompany(Refresher(lookups))
        if own is not None:
            query.on_end(lambda: end_embedded(own))
        return query.start()
    except BaseException:
        if query is not None:
            query.stop(now=True)  # after Ctrl-C its workers would go on in a session that is not ours
        if own is not None and own.sparkContext._jsc is not None:  # noqa: SLF001 - None once stopped
            end_embedded(own)
        raise
