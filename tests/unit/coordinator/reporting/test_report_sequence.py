"""Which reports count, in whichever order they come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordinator.reporting.report_sequence import LATE_MAX, ReportSequence


def test_in_order_each_is_the_newest_and_a_second_time_none_counts():
    reports = ReportSequence()
    assert [reports.admit(number) for number in (1, 2, 3)] == ["newest"] * 3
    assert [reports.admit(number) for number in (1, 2, 3)] == ["repeated"] * 3


def test_one_that_was_overtaken_counts_once():
    reports = ReportSequence()
    assert [reports.admit(number) for number in (1, 4, 2, 2, 3, 5)] == [
        "newest", "newest", "late", "repeated", "late", "newest",
    ]  # fmt: skip


def test_so_many_may_be_late_and_older_ones_are_given_up():
    reports = ReportSequence()
    assert reports.admit(10**9) == "newest"
    assert reports.admit(10**9 - LATE_MAX) == "late"
    assert reports.admit(10**9 - LATE_MAX - 1) == "repeated"
    assert reports.admit(10**9 + LATE_MAX) == "newest"
    assert reports.admit(10**9 - 1) == "repeated"


@given(st.lists(st.integers(1, LATE_MAX), min_size=1))
def test_each_counts_once_and_the_largest_is_the_newest(numbers):
    reports = ReportSequence()
    found = [(reports.admit(number), number) for number in numbers]
    counted = [number for standing, number in found if standing != "repeated"]
    assert sorted(counted) == sorted(set(numbers))
    assert [number for standing, number in found if standing == "newest"][-1] == max(numbers)
