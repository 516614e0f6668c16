"""Tailrace: record-at-a-time stream processing in Python on the Spark cluster you already have.

The way of a tuple, as folders: topology -> routing -> sending -> transport -> receiving -> worker, with acking beside
it. The way of a decision: worker -> coordinator -> policies -> worker. ``spark`` hosts both; ``connect`` has sources
and sinks; ``lever`` is the second front door, for Structured Streaming. What is imported here is public; the rest is
not.
"""

from __future__ import annotations

from tailrace.topology.contracts import Reader, Records, Sink, Source, Unreadable

from .checkpoint.savepoint import Savepoint
from .checkpoint.settings import Checkpoint
from .config import Policy, Settings
from .connect import sinks, sources
from .coordinator.query import Query, QueryListener
from .errors import TailraceError
from .spark.session import spark_session
from .start import lookup, register, start
from .state.declared import ListState, MapState, States, ValueState
from .topology import split
from .topology.graph import Topology
from .topology.groupings import direct
from .topology.operators import DeadLetter, KeyedOperator, Operator, State, TaskContext
from .version import __version__

__all__ = [
    "Checkpoint",
    "DeadLetter",
    "KeyedOperator",
    "ListState",
    "MapState",
    "Operator",
    "Policy",
    "Query",
    "QueryListener",
    "Reader",
    "Records",
    "Savepoint",
    "Settings",
    "Sink",
    "Source",
    "State",
    "States",
    "TailraceError",
    "TaskContext",
    "Topology",
    "Unreadable",
    "ValueState",
    "__version__",
    "direct",
    "lookup",
    "register",
    "sinks",
    "sources",
    "spark_session",
    "split",
    "start",
]
