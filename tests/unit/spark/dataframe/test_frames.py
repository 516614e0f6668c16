"""What is no DataFrame of a classic session is told before anything starts."""

from __future__ import annotations

import pytest

import tailrace as tr
from tailrace import testing
from tailrace.connect.errors import ConnectorOptionError
from tailrace.spark.errors import SparkConnectError

ConnectFrame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "isStreaming": False})


def test_a_spark_connect_dataframe_is_named():
    flow = tr.Topology("connect")
    flow.source(tr.sources.dataframe(ConnectFrame())).sink(tr.sinks.discard())
    with pytest.raises(SparkConnectError, match="Spark Connect"):
        tr.start(flow)
    flow = tr.Topology("connect")
    flow.input().output("id long")
    with pytest.raises(SparkConnectError, match="Spark Connect"):
        flow.apply(ConnectFrame())


def test_what_is_no_dataframe_is_named():
    flow = tr.Topology("none")
    flow.source(tr.sources.dataframe([1, 2])).sink(tr.sinks.discard())
    with pytest.raises(ConnectorOptionError, match="found list"):
        tr.start(flow)


def test_rows_in_an_unknown_form_are_named():
    with pytest.raises(ConnectorOptionError, match="'tuple'"):
        tr.sources.dataframe(None, "tuple")


def test_a_host_other_than_spark_says_what_to_use_instead():
    flow = tr.Topology("hosted")
    flow.source(tr.sources.dataframe(None)).sink(tr.sinks.discard())
    with pytest.raises(ConnectorOptionError, match="not hosted by Spark"):
        testing.run(flow)
