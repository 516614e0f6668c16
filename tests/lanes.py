"""How tests are dealt to the processes of a parallel run, and what each of those has of its own.

Tests on Spark go by folder, so that those of a folder share a session; all others go by file. ``tests/conftest.py``
takes the hook from here. A run in one process keeps the order in which tests were collected.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path

import pytest

#: Slow folders begin first, so that small files fill up what is left of the time.
SLOW = ("tests/cluster", "tests/lever", "tests/operators", "tests/chaos", "tests/faults")


def lane_of(item):
    """Name the tests that this one shares a process with."""
    file = item.nodeid.partition("::")[0]
    return f"{Path(file).parent.as_posix()} on Spark" if item.get_closest_marker("spark") else file


def _rank(item):
    file = item.nodeid.partition("::")[0]
    slow = [at for at, folder in enumerate(SLOW) if file.startswith(f"{folder}/")]
    return item.get_closest_marker("spark") is None, slow[0] if slow else len(SLOW)


def pytest_collection_modifyitems(config, items):
    if not hasattr(config, "workerinput"):
        return
    items.sort(key=_rank)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(lane_of(item)))


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
