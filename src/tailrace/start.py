"""``tr.start``: the front door. Checks the topology and the settings, finds or starts Spark, and starts the query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .config import Policy, Settings
from .coordinator.query import Query

if TYPE_CHECKING:
    from .topology.graph import Topology


def start(
    flow: Topology,
    spark: Any = None,
    *,
    workers: int | None = None,
    policy: Policy | None = None,
    settings: Settings | None = None,
) -> Query:
    """Run a topology on Spark and return once all workers are open.

    Without a session the active one is used, or an embedded ``local-cluster`` is started and ended with the query.
    ``workers`` is how many of the application's task slots are taken, one per core if not given.
    """
    flow.validate()
    policy, settings = policy or Policy(), settings or Settings()
    from .spark.host import SparkHost  # noqa: PLC0415 - only here, so that drawing a topology needs no Spark
    from .spark.session import check_java, default_workers, embedded, end_embedded  # noqa: PLC0415

    workers = workers or default_workers()
    check_java()
    own = None
    if spark is None:
        from pyspark.sql import SparkSession  # noqa: PLC0415

        spark = SparkSession.getActiveSession()
        if spark is None:
            spark = own = embedded(workers)
    query = None
    try:
        query = Query(flow, SparkHost(spark, workers, settings), policy, settings)
        if own is not None:
            query.on_end(lambda: end_embedded(own))
        return query.start()
    except BaseException:
        if query is not None:
            query.stop(now=True)  # after Ctrl-C its workers would go on in a session that is not ours
        if own is not None and own.sparkContext._jsc is not None:  # noqa: SLF001 - None once stopped
            end_embedded(own)
        raise
