from __future__ import annotations

import io

import pytest
from rich.console import Console

from tailrace_bench.measurement import machine
from tailrace_bench.measurement.pace import Pace
from tailrace_bench.measurement.rounds import take


@pytest.fixture
def pace():
    with Pace(Console(file=io.StringIO()), 1.0) as made:
        yield made


class Host:
    """Takes so many seconds from each round of one second."""

    def __init__(self, *takes_s: float) -> None:
        self.takes_s = takes_s
        self.looks = 0

    def stolen_s(self) -> float:
        rounds, self.looks = (self.looks + 1) // 2, self.looks + 1
        return sum(self.takes_s[:rounds])

    def clock_s(self) -> float:
        return float(self.looks // 2)


def kept(pace: Pace, host: Host, repeats: int, spare: int) -> list[int]:
    """Which rounds of one arm count."""
    numbers = iter(range(100))
    found = take(
        ["a"], repeats, lambda _: next(numbers), pace, spare=spare, clock_s=host.clock_s, taken_s=host.stolen_s
    )
    return found["a"]


def test_a_calm_machine_needs_no_spare_rounds(pace):
    host = Host(0.0, 0.01, 0.02, 0.0)
    assert kept(pace, host, repeats=3, spare=2) == [0, 1, 2]
    assert host.looks == 6


def test_a_disturbed_round_is_replaced(pace):
    assert kept(pace, Host(0.0, 0.3, 0.0, 0.01, 0.0), repeats=3, spare=2) == [0, 2, 3]


def test_when_the_spare_rounds_are_used_up_the_calmest_are_kept_in_their_order(pace):
    assert kept(pace, Host(0.3, 0.1, 0.9, 0.0, 0.2), repeats=3, spare=2) == [1, 3, 4]


def test_every_arm_has_a_turn_in_each_round_and_every_place_in_it(pace):
    order: list[str] = []
    again: list[str] = []
    for into in (order, again):
        take("abc", 30, into.append, pace, taken_s=lambda: 0.0)
    assert order == again
    rounds = [order[at : at + 3] for at in range(0, 90, 3)]
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert all({each[place] for each in rounds} == {"a", "b", "c"} for place in range(3))


def test_what_is_paired_is_of_one_round(pace):
    clock = iter(range(100))
    found = take(["a", "b"], 5, lambda _: next(clock) // 2, pace, taken_s=lambda: 0.0)
    assert found["a"] == found["b"] == [0, 1, 2, 3, 4]


def test_stolen_time_only_grows():
    before = machine.stolen_s()
    assert 0.0 <= before <= machine.stolen_s()
