"""Tables: what tasks write counts once it is committed, once, whoever died in between."""

from __future__ import annotations

import copy
import logging

import pytest

from tailrace.clock import FakeClock
from tailrace.connect import sinks
from tailrace.connect.errors import SpoolError, WrongSchemaError
from tailrace.connect.spool import Spool
from tailrace.topology.operators import TaskContext


class FeedServer:
    """A table at the driver and its tasks, with the way between them."""

    def __init__(self, folder, **options):
        self.folder = folder
        self.table = sinks.table(folder, "id long not null", **options)
        self.table.begin()

    def task(self, number=0):
        made = copy.deepcopy(self.table)
        emit = self.table.receive
        made.open(TaskContext("table", number, 1, "q", logging.getLogger(), FakeClock(), emit))
        return made

    def ids(self):
        spool = Spool(str(self.folder), "out")
        ranges = [part for number in range(spool.entries()) for part in spool.entry(number).ranges]
        return [value for batch in spool.read(ranges) for value in batch.column(0).to_pylist()]


@pytest.fixture
def desk(tmp_path):
    return FeedServer(tmp_path)


def rows(*ids):
    return [{"id": number} for number in ids]


def test_rows_count_from_their_commit_on(desk):
    task = desk.task()
    task.write_origins(rows(1, 2), [11, 12])
    assert desk.ids() == []
    desk.table.commit_batch("in:0")
    assert desk.ids() == [1, 2]
    assert desk.table.has("in:0")
    assert not desk.table.has("in:1")


def test_a_batch_that_is_run_again_after_its_commit_is_not_written_again(desk):
    desk.task().write_origins(rows(1), [11])
    desk.table.commit_batch("in:0")
    again = FeedServer(desk.folder)
    assert again.table.has("in:0")
    again.task().write_origins(rows(1), [11])
    again.table.commit_batch("in:0")
    again.task().write_origins(rows(2), [12])
    again.table.commit_batch("in:1")
    assert again.ids() == [1, 2]


def test_what_was_not_committed_before_a_restart_is_no_part_of_the_table(desk):
    desk.task().write_origins(rows(1), [11])
    again = FeedServer(desk.folder)
    again.task().write_origins(rows(1), [11])
    again.table.commit_batch("in:0")
    assert again.ids() == [1]
    assert len(list((desk.folder / "out" / "data").iterdir())) == 1


def test_what_a_lost_task_had_written_is_not_doubled_by_its_successor(desk):
    lost = desk.task()
    lost.write_origins(rows(1, 2), [11, 12])
    lost.write_origins(rows(3, 3), [13, 13])
    successor = desk.task()
    successor.write_origins(rows(2, 3, 3, 4), [12, 13, 13, 14])
    successor.write_origins(rows(5), [15])
    third = desk.task()
    third.write_origins(rows(5, 6), [15, 16])
    desk.task(1).write_origins(rows(7), [11])  # another task's numbers are its own affair
    desk.table.commit_batch("in:0")
    assert sorted(desk.ids()) == [1, 2, 3, 3, 4, 5, 6, 7]


def test_where_time_decides_a_successor_doubles_nothing_across_commits(tmp_path):
    desk = FeedServer(tmp_path, commit_s=1e-9)
    desk.task().write_origins(rows(1, 2), [11, 12])
    desk.table.attend()
    assert desk.ids() == [1, 2]
    desk.task().write_origins(rows(2, 3), [12, 13])
    desk.table.attend()
    assert desk.ids() == [1, 2, 3]


def test_rows_that_hang_on_no_root_are_all_kept(desk):
    desk.task().write(rows(1, 1))
    desk.task().write(rows(1))
    desk.table.commit_batch("in:0")
    assert desk.ids() == [1, 1, 1]


@pytest.mark.parametrize(
    ("commits", "error", "abandoned", "kept"),
    [
        ("end", None, False, True),
        ("end", ValueError("failed"), False, False),
        ("end", None, True, False),
        ("epoch", None, False, False),
        ("time", ValueError("failed"), False, True),
    ],
)
def test_the_end_of_a_query_commits_what_is_complete(desk, commits, error, abandoned, kept):
    desk.table.commits, desk.table.abandoned = commits, abandoned
    desk.task().write_origins(rows(1), [11])
    desk.table.finish(error)
    assert desk.ids() == ([1] if kept else [])


def test_two_writers_of_one_table_are_told(desk):
    other = FeedServer(desk.folder)
    desk.table.commit_batch("in:0")
    with pytest.raises(SpoolError, match="written by someone else"):
        other.table.commit_batch("in:0")


def test_another_schema_in_the_same_folder_is_told(desk):
    with pytest.raises(WrongSchemaError, match="has the schema"):
        sinks.table(desk.folder, "id string").begin()


def test_a_table_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SpoolError, match="no table"):
        Spool(str(tmp_path), "out").schema()
