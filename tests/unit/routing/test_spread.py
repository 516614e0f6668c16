"""Small sets of short keys spread over tasks as if each key had been dealt at random."""

from __future__ import annotations

import itertools
import random
import statistics
import string
import uuid
from collections import Counter

import pytest

from tailrace.batch import Batch, numbers
from tailrace.routing.fields import Fields, stable_hash
from tailrace.routing.partial_key import pair_of

NO_ROOTS = Batch([], None, numbers())
TASKS = (2, 3, 4, 8)
SETS = 300


def _in_a_row(make):
    """Sets of 6 to 40 keys that follow one another, none of which is in two sets."""
    at, sizes = 0, random.Random(27)
    for _ in range(SETS):
        size = sizes.randint(6, 40)
        yield [make(number) for number in range(at, at + size)]
        at += size


def _letters(number):
    """Read a number as letters: a, b, ... z, ba, bb, ..."""
    text = ""
    while True:
        number, digit = divmod(number, 26)
        text = string.ascii_lowercase[digit] + text
        if not number:
            return text


FAMILIES = {
    "ints": lambda number: number,
    "negative ints": lambda number: -number,
    "thousands": lambda number: number * 1000,
    "powers of two": lambda number: number << 20,
    "floats": lambda number: number / 4,
    "letters": _letters,
    "digits": str,
    "padded": lambda number: f"{number:06d}",
    "prefixed": lambda number: f"user-{number}",
    "bytes": lambda number: number.to_bytes(2, "big"),
    "day and hour": lambda number: divmod(number, 24),
    "name and number": lambda number: ("sensor", number),
    "uuids": lambda number: uuid.UUID(int=number << 64 | 0x4000_8000_0000_0000),
}


def fullest(dests):
    """How many keys the task has that has most."""
    return max(Counter(dests).values())


def unevenness(dests, tasks):
    """Pearson's chi-square over its degrees of freedom: about 1 where keys are dealt at random."""
    counts, share = Counter(dests), len(dests) / tasks
    return sum((counts[task] - share) ** 2 / share for task in range(tasks)) / (tasks - 1)


@pytest.mark.parametrize("tasks", TASKS)
@pytest.mark.parametrize("family", FAMILIES)
def test_small_key_sets_spread_like_random_ones(family, tasks):
    sets = list(_in_a_row(FAMILIES[family]))
    dealt = random.Random(tasks)
    ours = [Fields(None, tasks, 1024).choose(keys, NO_ROOTS) for keys in sets]
    by_chance = [[dealt.randrange(tasks) for _ in keys] for keys in sets for _ in range(20)]
    for measure in (lambda dests: unevenness(dests, tasks), lambda dests: fullest(dests) * tasks / len(dests)):
        expected = [measure(dests) for dests in by_chance]
        found = [measure(dests) for dests in ours]
        error = statistics.stdev(expected) / SETS**0.5
        assert abs(statistics.mean(found) - statistics.mean(expected)) < 4 * error
        # The tail is where keys pile up: as many bad sets as by chance, not more.
        bad = sorted(expected)[int(len(expected) * 0.95)]
        assert sum(each > bad for each in found) < 0.05 * SETS + 4 * (0.05 * 0.95 * SETS) ** 0.5


@pytest.mark.parametrize(
    ("keys", "tasks"),
    [(range(10), 2), ("abcdefghij", 2), (range(24), 4), (string.ascii_uppercase, 4), (range(60), 8), (range(1, 13), 3)],
    ids=["ten ints", "ten letters", "hours", "capitals", "minutes", "months"],
)
def test_sets_that_people_use_leave_no_task_idle(keys, tasks):
    counts = Counter(Fields(None, tasks, 1024).choose(list(keys), NO_ROOTS))
    assert set(counts) == set(range(tasks))
    assert max(counts.values()) <= 2 * len(keys) / tasks


def test_the_two_tasks_of_a_key_spread_too():
    found = Counter(itertools.chain.from_iterable(pair_of(number, 4) for number in range(200)))
    assert unevenness(list(found.elements()), 4) < 4


def test_minus_one_and_minus_two_are_two_keys():
    assert stable_hash(-1) != stable_hash(-2)
    assert stable_hash(-1) == stable_hash(-1.0)


def test_the_hash_never_changes():
    # State that was kept by key group must be found again by every later version.
    known = {
        "word": 0xDE853BB527291DFF,
        "": 0xE89F6F8E02D2314C,
        7: 0x97933365EEA3FAAF,
        -1: 0xD3D5411B7D0AA557,
        2.5: 0xB04D5EC2F3403752,
        None: 0x97018FEB727FFB00,
        b"x": 0xDFD8DA63B64A3171,
        ("a", 1): 0x0C5595EA9EC381EC,
        frozenset({"a", "b"}): 0xE764FB26316B46B3,
    }
    assert {key: stable_hash(key) for key in known} == known
