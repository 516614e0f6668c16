"""The open-loop generator: what is due when, at which number, under a clock that the test moves."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.connect.readers import read_all

from tailrace.clock import NS_PER_S, FakeClock
from tailrace.connect import errors, sources


def test_each_read_gives_all_that_is_due_with_its_time():
    clock = FakeClock(start_ns=5_000)
    reader = sources.rate(1_000).open("0", 0, clock)
    first = reader.read(100)
    assert (list(first.offsets), first.values, list(first.due_ns)) == ([0], [0], [5_000])
    assert reader.read(100).values == []
    assert reader.wait_s() == pytest.approx(0.001)
    clock.advance(3_500_000)
    later = reader.read(100)
    assert later.values == [1, 2, 3]
    assert list(later.due_ns) == [1_005_000, 2_005_000, 3_005_000]
    assert reader.wait_s() == pytest.approx(0.0005)
    assert not reader.finished


def test_time_between_opening_and_the_first_question_makes_no_backlog():
    clock = FakeClock()
    reader = sources.rate(10).open("0", 0, clock)
    clock.advance(NS_PER_S)
    assert list(reader.read(100).due_ns or ()) == [NS_PER_S]


def test_records_held_back_keep_the_time_they_were_due():
    clock = FakeClock()
    reader = sources.rate(10).open("0", 0, clock)
    assert reader.wait_s() == 0
    clock.advance(NS_PER_S)
    dues = [due for _ in range(4) for due in reader.read(3).due_ns or ()]
    assert dues == [number * 100_000_000 for number in range(11)]


@given(
    per_s=st.floats(0.01, 1e7),
    partitions=st.integers(1, 5),
    steps_ns=st.lists(st.integers(0, NS_PER_S), max_size=20),
)
def test_no_record_is_early_none_is_forgotten_and_times_do_not_drift(per_s, partitions, steps_ns):
    clock = FakeClock()
    source = sources.rate(per_s, partitions=partitions)
    for number in range(partitions):
        reader = source.open(str(number), 0, clock)
        assert reader.wait_s() == 0
        start_ns, seen = clock.now_ns(), 0
        for step_ns in steps_ns:
            clock.advance(step_ns)
            records = reader.read(50)
            for offset, due_ns in zip(records.offsets, records.due_ns or (), strict=True):
                assert offset == number + seen * partitions
                assert abs(due_ns - start_ns - seen * partitions * NS_PER_S / per_s) <= 1
                assert due_ns <= clock.now_ns() + 1
                seen += 1
            if len(records.values) < 50:
                assert reader.wait_s() > 0 or reader.read(1).values


def test_partitions_share_rate_count_and_numbers():
    source = sources.rate(30, count=10, partitions=3)
    assert source.bounded
    clock = FakeClock()
    found = {}
    for partition in source.partitions():
        reader = source.open(partition, 0, clock)
        assert reader.wait_s() == 0
        clock.advance(NS_PER_S)
        found[partition] = [reader.read(100), reader.finished]
    assert {name: list(records.offsets) for name, (records, _) in found.items()} == {
        "0": [0, 3, 6, 9],
        "1": [1, 4, 7],
        "2": [2, 5, 8],
    }
    assert all(finished for _, finished in found.values())


@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("offset", range(9))
def test_a_restart_goes_on_at_the_offset_and_is_due_at_once(partitions, offset):
    source = sources.rate(10, count=8, partitions=partitions)
    offsets = []
    for partition in source.partitions():
        clock = FakeClock()
        reader = source.open(partition, offset, clock)
        first = reader.read(1)
        assert list(first.due_ns or ()) == [0] * len(first.values)
        clock.advance(10 * NS_PER_S)
        offsets += [*first.offsets, *reader.read(100).offsets]
    assert sorted(offsets) == list(range(offset, 8))


def test_values_are_made_or_taken_in_turn():
    made = sources.rate(math.inf, lambda number: number * 10, count=3)
    assert read_all(made, "0") == [(0, 0), (1, 10), (2, 20)]
    for partitions in (1, 2):
        cycled = sources.rate(math.inf, values="abc", count=10, partitions=partitions)
        pairs = sorted(itertools.chain.from_iterable(read_all(cycled, p, max_records=5) for p in cycled.partitions()))
        assert "".join(value for _, value in pairs) == "abcabcabca"


def test_without_a_rate_records_are_never_due_and_always_there():
    reader = sources.rate(math.inf).open("0", 0, FakeClock())
    assert reader.read(3) == (range(3), [0, 1, 2], None)
    assert reader.wait_s() == 0
    assert not sources.rate(math.inf).bounded


def test_nothing_to_make_is_finished_from_the_start():
    assert sources.rate(5, count=0).open("0", 0, FakeClock()).finished


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"per_s": 0}, "per_s must be"),
        ({"per_s": math.nan}, "per_s must be"),
        ({"per_s": "5"}, "per_s must be"),
        ({"per_s": 5, "make": 3}, "make must be a function"),
        ({"per_s": 5, "make": str, "values": [1]}, "found both"),
        ({"per_s": 5, "values": []}, "at least one value"),
        ({"per_s": 5, "count": -1}, "count must be"),
        ({"per_s": 5, "count": 1.0}, "count must be"),
        ({"per_s": 5, "partitions": 0}, "partitions must be"),
        ({"per_s": 5, "partitions": True}, "partitions must be"),
    ],
)
def test_arguments_out_of_range(arguments, text):
    with pytest.raises(errors.ConnectorOptionError, match=text):
        sources.rate(**arguments)
