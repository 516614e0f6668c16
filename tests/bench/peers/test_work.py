"""Equal results are what makes speeds comparable: the check must find what is lost, doubled or miscounted."""

from __future__ import annotations

import collections
import math
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_bench.arms.bare import BareArm
from tailrace_bench.errors import WrongResultError
from tailrace_bench.flows import values_of
from tailrace_bench.peers.bare_loop import count_words, exclaim_all
from tailrace_bench.peers.work import EXCLAIM_STEPS, Values, expected, keeper, together


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 7))
def test_expected_counts_are_those_of_the_records_made(made, size):
    values = [f"w{i} w{i % 3}" for i in range(size)]
    words = collections.Counter()
    for partition, count in enumerate(made):
        for turn in range(count):
            words.update(values[(partition + turn * len(made)) % size].split())
    assert expected("wordcount", values, made) == words


@given(st.integers(0, 100), st.integers(0, 50), st.integers(1, 3))
def test_values_by_number_in_slices_or_not(start, count, step):
    values = [str(i) for i in range(7)]
    numbers = range(start, start + count * step, step)
    assert Values(values).take(numbers) == [values[n % 7] for n in numbers]


@pytest.mark.parametrize("kind", ["wordcount", "exclaim"])
def test_the_bare_loop_does_the_work(kind):
    values = values_of(kind)[:50]
    keep, kept = keeper(kind)
    work = count_words if kind == "wordcount" else exclaim_all
    work(values * 2, {}, keep)
    assert together(kind, [kept]) == expected(kind, values, [100])


def test_records_are_as_described():
    sentences, strings = values_of("wordcount"), values_of("exclaim")
    assert {len(sentence.split()) for sentence in sentences} == {10}
    assert len(sentences) > 4000
    assert {len(string.encode()) for string in strings} == {100}
    assert max(map(len, expected("exclaim", strings, [1000]))) == 100 + EXCLAIM_STEPS


def test_a_real_arm_is_measured_checked_and_gone(tmp_path):
    arm = BareArm("wordcount", tmp_path)
    arm.open()
    (pid,) = arm.pids()
    try:
        window = arm.saturate(0.05, 0.1)
    finally:
        parts = arm.close()
    assert window.records > 0
    assert window.cpu_s >= 0
    arm.check(parts)
    word = next(iter(parts[0]))
    parts[0][word] += 1
    with pytest.raises(WrongResultError, match="bare_loop counted"):
        arm.check(parts)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_suspended_arm_makes_nothing(tmp_path):
    arm = BareArm("exclaim", tmp_path)
    arm.open()
    try:
        arm.panel.go(math.inf, 60)
        time.sleep(0.2)
        assert arm.panel.done() == 0
    finally:
        arm.panel.halt()
        arm.close()
