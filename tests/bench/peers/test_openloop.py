"""The generator knows no engine: what is due depends on the clock and on nothing that was taken before."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace_bench.peers import panel as panels
from tailrace_bench.peers.openloop import IDLE_NS, OpenLoop
from tailrace_bench.peers.panel import Panel


class Hand:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def hand(monkeypatch):
    clock = Hand()
    monkeypatch.setattr(panels.time, "monotonic_ns", clock)
    return clock


@pytest.fixture
def panel(tmp_path):
    return Panel(tmp_path / "panel", create=True)


def test_nothing_before_a_command(panel, hand):
    loop = OpenLoop(panel, 0, 1, hand)
    assert loop.take(100) == (range(0), None)
    assert loop.wait_ns() == IDLE_NS


def test_each_record_is_due_at_its_own_time_however_late_it_is_taken(panel, hand):
    loop = OpenLoop(panel, 0, 1, hand)
    start_ns, _ = panel.go(1000, seconds=1)
    assert loop.take(100) == (range(0), None)
    assert loop.wait_ns() == start_ns
    hand.now_ns = start_ns + 3_500_000
    numbers, dues = loop.take(100)
    assert numbers == range(4)
    assert dues == [start_ns + i * 1_000_000 for i in range(4)]
    assert loop.wait_ns() == 500_000


def test_an_engine_that_takes_little_finds_the_rest_due_since_long(panel, hand):
    loop = OpenLoop(panel, 0, 1, hand)
    start_ns, _ = panel.go(1000, seconds=1)
    hand.now_ns = start_ns + 100_000_000
    assert loop.take(2)[1] == [start_ns, start_ns + 1_000_000]
    assert loop.wait_ns() == 0
    assert loop.take(1)[1] == [start_ns + 2_000_000]


def test_numbers_go_on_over_commands(panel, hand):
    loop = OpenLoop(panel, 0, 1, hand)
    panel.go(1000, seconds=0.003)
    hand.now_ns += 10**9
    assert loop.take(100)[0] == range(3)
    assert loop.wait_ns() == IDLE_NS
    panel.go(1000, seconds=0.002)
    hand.now_ns += 10**9
    assert loop.take(100)[0] == range(3, 5)
    assert panel.made(1) == [5]


def test_without_a_rate_as_many_as_are_taken_until_the_halt(panel, hand):
    loop = OpenLoop(panel, 0, 1, hand)
    hand.now_ns = panel.go(math.inf, seconds=1)[0]
    assert loop.take(256) == (range(256), None)
    assert loop.wait_ns() == 0
    panel.halt()
    assert loop.take(256) == (range(0), None)
    assert loop.wait_ns() == IDLE_NS


@settings(deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from([300, 500, 2000, 10_000, 33_333]),
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5_000_000)), max_size=30),
)
def test_partitions_make_every_number_once_and_as_many_as_the_rate_says(tmp_path_factory, partitions, rate, steps):
    clock = Hand()
    panel = Panel(tmp_path_factory.mktemp("panel") / "p", create=True)
    seconds = 0.05
    start_ns, records = panel.go(rate, seconds)
    loops = [OpenLoop(panel, p, partitions, clock) for p in range(partitions)]
    clock.now_ns = start_ns
    dues: dict[int, int] = {}
    for most, pause_ns in [*steps, (10**6, 10**9), (10**6, 0)]:  # the last of all may be due to the nanosecond
        clock.now_ns += pause_ns
        for loop in loops:
            numbers, times = loop.take(most)
            dues.update(zip(numbers, times or (), strict=True))
    assert sorted(dues) == list(range(len(dues)))
    assert all(start_ns <= due < start_ns + seconds * 1e9 for due in dues.values())
    assert [dues[n] for n in sorted(dues)] == sorted(dues.values())
    assert len(dues) == records
    assert abs(records - rate * seconds) <= 1


def test_questions_are_answered_by_all_or_not_at_all(panel):
    panel.ask()
    assert panel.is_asked(0)
    panel.answer(0)
    assert not panel.answered(2)
    panel.answer(1)
    assert panel.answered(2)
    panel.ask()
    assert not panel.answered(2)
