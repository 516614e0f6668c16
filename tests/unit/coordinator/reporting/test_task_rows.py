"""One row per task, while tasks move and workers are lost."""

from __future__ import annotations

from tailrace.coordinator.reporting.task_rows import TaskRows
from tailrace.reports import TaskReport

AT_0, AT_1 = [[0]], [[1]]


def row(tuples, **fields):
    return TaskReport(0, 0, "inline", tuples_in=tuples, **fields)


def shown(rows, placement):
    return [(each.slot, each.row.tuples_in) for each in rows.present(placement)]


def test_a_task_that_moved_is_shown_once_whoever_reports_last():
    for order in ((0, 1), (1, 0)):
        rows = TaskRows()
        for slot in order:
            rows.take(slot, [row(10 if slot == 0 else 15)])
        assert shown(rows, AT_1) == [(1, 15)]


def test_of_two_rows_that_are_level_the_one_where_it_is_placed_counts():
    for placement in (AT_0, AT_1):
        rows = TaskRows()
        rows.take(0, [row(10)])
        rows.take(1, [row(10)])
        assert shown(rows, placement) == [(placement[0][0], 10)]


def test_a_row_stands_until_the_new_worker_has_reported():
    rows = TaskRows()
    rows.take(0, [row(10)])
    rows.take(0, [])
    assert rows.forget(0, AT_1) == []
    assert shown(rows, AT_1) == [(0, 10)]
    rows.take(1, [row(10)])
    assert shown(rows, AT_1) == [(1, 10)]


def test_what_a_lost_worker_had_counted_is_handed_over_once():
    rows = TaskRows()
    rows.take(0, [row(10)])
    rows.take(1, [row(15)])
    assert rows.forget(1, AT_1) == [row(15)]
    assert shown(rows, AT_1) == []
    rows.take(1, [row(2)])
    assert shown(rows, AT_1) == [(1, 2)]


def test_a_task_lost_before_its_new_worker_has_reported_is_handed_over_too():
    rows = TaskRows()
    rows.take(0, [row(10)])
    assert rows.forget(1, AT_1) == [row(10)]
    assert shown(rows, AT_1) == []
