"""Who feeds which lane: the same partition always the same one, the next when every row is done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.dataframe.claims import LaneClaims
from tailrace.spark.dataframe.messages import Way

HERE, THERE = Way("here", ("127.0.0.1", 1)), Way("there", ("127.0.0.2", 2))


@pytest.fixture
def claims():
    made = LaneClaims({"lane-0": 1, "lane-1": 2, "lane-2": 3})
    made.up(["lane-0"], HERE)
    made.up(["lane-1", "lane-2"], THERE)
    return made


def test_a_task_is_given_a_lane_of_its_own_host_while_one_is_free(claims):
    assert claims.claim(0, 0, "there").lane.way is THERE
    assert claims.claim(0, 1, "there").lane.way is THERE
    assert claims.claim(0, 2, "there").lane.way is HERE
    assert claims.claim(0, 3, "there") is None


def test_a_second_attempt_gets_the_same_lane_and_offset(claims):
    first = claims.claim(0, 0, "here")
    assert claims.claim(0, 0, "there") is first


def test_a_lane_goes_on_behind_the_rows_it_had(claims):
    first = claims.claim(0, 0, "here")
    claims.finished(0, 0, 100)
    claims.finished(0, 0, 100)  # told twice
    assert claims.claim(0, 0, "here").rows == 100
    second = claims.claim(0, 9, "here")
    assert (second.lane, second.base) == (first.lane, 100)


def test_lanes_without_a_worker_are_not_given(claims):
    assert LaneClaims({"lane-0": 1}).claim(0, 0, "here") is None


def test_a_batch_that_is_over_is_forgotten(claims):
    claims.claim(0, 0, "here")
    claims.finished(0, 0, 5)
    claims.batch_over(0)
    assert claims.claim(0, 0, "here").base == 5


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 50)), max_size=40))
def test_no_two_rows_ever_share_a_number(finishes):
    claims = LaneClaims({f"lane-{i}": i + 1 for i in range(3)})
    claims.up(["lane-0", "lane-1", "lane-2"], HERE)
    taken = set()
    for batch, (partition, rows) in enumerate(finishes):
        held = claims.claim(batch, partition, "here")
        numbers = {(held.lane.number, held.base + row) for row in range(rows)}
        assert not numbers & taken
        taken |= numbers
        claims.finished(batch, partition, rows)
        claims.batch_over(batch)
