"""Every operator test runs under each host: in one process on a fake clock, in plain processes, and on Spark."""

from __future__ import annotations

import cloudpickle
import pytest
from tests import sparks
from tests.queries import PATIENT, WAIT_S

from tailrace import testing
from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.spark.host import SparkHost

HOSTS = ["in process", "processes", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture(scope="session", autouse=True)
def _spark_ended():
    yield
    sparks.stop()


@pytest.fixture(params=HOSTS)
def host(request):
    return request.param


@pytest.fixture
def run(host, request):
    """Run a flow to its end under the host at hand; what arrived is in the flow's own sinks."""
    # Workers elsewhere cannot import the tests.
    cloudpickle.register_pickle_by_value(request.module)

    def to_the_end(flow, *, workers=2, policy=None, settings=None):
        policy, settings = policy or Policy(), settings or Settings(**PATIENT)
        if host == "in process":
            testing.run(flow, workers=workers, policy=policy, settings=settings)
            return
        flow.validate()
        on_spark = host == "spark"
        at = SparkHost(sparks.session(), workers, settings) if on_spark else testing.ProcessHost(workers)
        query = Query(flow, at, policy, settings).start()
        if not query.awaitTermination(WAIT_S):
            told = query.explain(text=True), query.lastProgress
            query.stop(now=True)
            pytest.fail(f"the query did not end: {told}")

    return to_the_end
