"""The public names, held: whoever adds or removes one changes this list too, knowingly, and the change log with it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

import tailrace

PUBLIC = {
    "tailrace": {
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
    },
    "tailrace.topology.split": {"in_order", "parallel_fold", "top_k", "total", "with_partial_keys"},
    "tailrace.connect.sources": {"dataframe", "items", "lines", "rate", "socket"},
    "tailrace.connect.sinks": {
        "Collect",
        "collect",
        "console",
        "discard",
        "function",
        "json_lines",
        "parquet",
        "table",
    },
}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_names_are_these(name):
    module = importlib.import_module(name)
    assert set(module.__all__) == PUBLIC[name]
    assert len(module.__all__) == len(PUBLIC[name])
    assert all(hasattr(module, public) for public in module.__all__)


def test_nothing_else_is_imported_into_the_package():
    """A name without underscore that is no room of the package would be public by accident."""
    accidental = {
        name
        for name, value in vars(tailrace).items()
        if not name.startswith("_") and name != "annotations" and not isinstance(value, ModuleType)
    }
    assert accidental <= set(tailrace.__all__)


def test_drawing_a_topology_needs_no_spark():
    """PySpark is slow to import: that is left to those who start a query."""
    code = "import sys, tailrace; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
