"""How tests are dealt to the processes of a parallel run, and what each of those has of its own.

Tests on Spark go by folder, so that those of a folder share a session; all others go by file. ``tests/conftest.py``
takes the hooks from here. A run in one process keeps the order in which tests were collected.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path

import pytest

#: Every test of these is on Spark.
ON_SPARK = ("tests/cluster", "tests/lever")
#: Of these one test or another takes a session with other settings than ``sparks.session()``: a session is exchanged
#: for some 12 s of CPU time, so they come before all that share one.
OTHER_SESSIONS = tuple(f"tests/cluster/test_{name}.py" for name in ("dataframe_types", "local", "standalone"))
#: Tests elsewhere that take the session of the operators' tests.
_WITH_OPERATORS = "tests/chaos/test_spark.py"
#: Slow folders begin first, so that small files fill up what is left of the time.
SLOW = (*ON_SPARK, "tests/operators on Spark", "tests/chaos", "tests/faults", "tests/operators")


def lane_of(test):
    """Name the lane of a test, given by its id: all tests of a lane run in one process."""
    file, _, name = test.partition("::")
    folder = Path(file).parent.as_posix()
    if folder in ON_SPARK:
        return folder
    if file == _WITH_OPERATORS or (folder == "tests/operators" and "spark" in name.partition("[")[2]):
        return "tests/operators on Spark"
    return file


def _rank(item):
    lane = lane_of(item.nodeid)
    slow = next((at for at, slow in enumerate(SLOW) if lane == slow or lane.startswith(f"{slow}/")), len(SLOW))
    return slow, not (item.nodeid.startswith(OTHER_SESSIONS) or "[local[" in item.nodeid)


def pytest_collection_modifyitems(config, items):
    if hasattr(config, "workerinput"):  # one of several processes
        items.sort(key=_rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Deal by lanes where xdist would deal by scopes."""
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return lane_of(nodeid)

    return Lanes(config, log) if config.getvalue("dist") == "loadscope" else None


def spark_home():
    """Make a folder that leads to all of Spark but has a ``work`` of its own.

    The name of an application is the second in which it began: two that began together would share a folder.
    """
    installed = os.environ.get("SPARK_HOME") or Path(importlib.util.find_spec("pyspark").origin).parent
    home = Path(tempfile.mkdtemp(prefix="spark-home-"))
    for entry in Path(installed).iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry.resolve())
    return home
