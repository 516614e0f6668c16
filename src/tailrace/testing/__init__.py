"""The testing kit, public: what a user's tests and Tailrace's own share.

It may use every other room; no other room uses it. docs/testing.md shows how.
"""

from __future__ import annotations

from tailrace.clock import FakeClock
from tailrace.testing import chaos
from tailrace.testing.connectors import TestSink, TestSource
from tailrace.testing.inprocess import InProcess, run
from tailrace.testing.processes import ProcessHost
from tailrace.testing.proxy import FaultyProxy
from tailrace.testing.result import Result

__all__ = ["FakeClock", "FaultyProxy", "InProcess", "ProcessHost", "Result", "TestSink", "TestSource", "chaos", "run"]
