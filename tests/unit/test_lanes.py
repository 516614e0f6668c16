"""Which tests share a process, and which begin first, when the tests are shared out over several."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests import lanes


@pytest.mark.parametrize(
    ("test", "lane"),
    [
        ("tests/cluster/test_counts.py::test_every_sentence", "tests/cluster"),
        ("tests/lever/test_session.py::test_rows[rate]", "tests/lever"),
        ("tests/operators/test_plain.py::test_map[spark]", "tests/operators on Spark"),
        ("tests/operators/test_plain.py::test_map[spark-True]", "tests/operators on Spark"),
        ("tests/operators/test_plain.py::test_map[in process]", "tests/operators/test_plain.py"),
        ("tests/chaos/test_spark.py::test_a_killed_executor", "tests/operators on Spark"),
        ("tests/chaos/test_moves.py::test_a_killed_worker", "tests/chaos/test_moves.py"),
        ("tests/unit/spark/test_frames.py::test_spark[local]", "tests/unit/spark/test_frames.py"),
    ],
)
def test_a_folder_on_spark_is_one_lane_and_so_is_any_other_file(test, lane):
    assert lanes.lane_of(test) == lane


def test_slow_folders_begin_first_and_only_where_tests_are_shared_out():
    names = ["tests/unit/a.py::t", "tests/operators/a.py::t[spark]", "tests/chaos/a.py::t", "tests/cluster/a.py::t"]
    items = [SimpleNamespace(nodeid=name) for name in names]
    lanes.pytest_collection_modifyitems(SimpleNamespace(), items)
    assert [item.nodeid for item in items] == names
    lanes.pytest_collection_modifyitems(SimpleNamespace(workerinput={}), items)
    assert [item.nodeid for item in items] == [names[3], names[1], names[2], names[0]]


def test_what_takes_a_session_of_its_own_comes_before_what_shares_one():
    cluster = ["test_counts.py::t", "test_dataframe.py::t[local[4]]", "test_dataframe.py::t[spark]", "test_local.py::t"]
    items = [SimpleNamespace(nodeid=f"tests/cluster/{name}") for name in cluster]
    lanes.pytest_collection_modifyitems(SimpleNamespace(workerinput={}), items)
    assert [item.nodeid.rpartition("/")[2] for item in items] == [cluster[1], cluster[3], cluster[0], cluster[2]]


def test_every_file_with_a_session_of_its_own_is_there():
    root = Path(__file__).parents[2]
    assert all((root / file).is_file() for file in lanes.OTHER_SESSIONS)


def test_a_process_has_all_of_spark_and_a_work_folder_of_its_own(tmp_path, monkeypatch):
    installed = tmp_path / "installed"
    for name in ("jars", "bin", "work"):
        (installed / name).mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(installed))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = lanes.spark_home()
    assert sorted(entry.name for entry in home.iterdir()) == ["bin", "jars"]
    assert (home / "jars").resolve() == installed / "jars"
