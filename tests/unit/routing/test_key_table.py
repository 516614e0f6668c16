"""Cuts of key groups: what is sent again is cut as it was at first, whatever moved in between."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tailrace.batch import Batch, numbers, root_id
from tailrace.routing import key_table
from tailrace.routing.fields import Fields, group_of
from tailrace.routing.sampled import COUNTED_EVERY, Sampled

TASKS, GROUPS = 3, 12


def batch_of(rows):
    """A bundle of one value for each partition and offset."""
    heads = numbers(number for partition, offset in rows for number in (root_id(partition, offset), 256, 1))
    return Batch(list(range(len(rows))), None, heads)


def cut_of(rule, keys, partition, offset):
    """Which keys of one root go together."""
    origin = Batch(keys, [len(keys)], numbers((root_id(partition, offset), 256, 1)))
    dests = rule.choose(list(keys), origin)
    return [[key for key, dest in zip(keys, dests, strict=True) if dest == each] for each in dict.fromkeys(dests)]


def test_the_first_table_routes_as_fields_does():
    table = key_table.first_table(TASKS, GROUPS)
    keys = [f"key-{n}" for n in range(200)]
    none = Batch([], None, numbers())
    rule = key_table.rule_for(table, None, TASKS)
    assert rule.choose(list(keys), none) == Fields(None, TASKS, GROUPS).choose(list(keys), none)
    assert key_table.tasks_of(table, TASKS) == [0] * 4 + [1] * 4 + [2] * 4


@given(st.integers(0, 10_000))
def test_the_cut_of_a_root_never_changes_through_a_chain_of_moves(seed):
    """Old roots keep the old cut until all are complete, new ones keep the new cut when their part has moved."""
    rng = random.Random(seed)
    keys = list(range(100))
    table = key_table.first_table(TASKS, GROUPS)
    offset = 0
    for _ in range(4):
        before = cut_of(key_table.rule_for(table, None, TASKS), keys, 1, offset)
        offset += 10
        present = key_table.tasks_of(table, TASKS)
        taker = rng.randrange(TASKS)
        moves = {group: taker for group in range(GROUPS) if present[group] != taker and rng.random() < 0.4}
        if not moves:
            continue
        cut = key_table.cut(table, TASKS, moves, {1: offset}, {})
        assert key_table.tasks_of(cut, TASKS) == present
        rule = key_table.rule_for(cut, None, TASKS)
        assert cut_of(rule, keys, 1, offset - 1) == before
        after = cut_of(rule, keys, 1, offset)
        assert not key_table.ripe(cut, {1: offset - 1})
        assert key_table.ripe(cut, {1: offset})
        table = key_table.moved(cut, TASKS, moves)
        assert cut_of(key_table.rule_for(table, None, TASKS), keys, 1, offset + 5) == after
        wanted = [moves.get(group, task) for group, task in enumerate(present)]
        assert key_table.tasks_of(table, TASKS) == wanted
        assert len(table.extra) <= TASKS


def test_ages_are_told_apart_within_a_batch_and_by_partition():
    table = key_table.first_table(1, 4)
    cut = key_table.cut(table, 1, {}, {1: 10, 2: 100}, {})
    rule = key_table.ByAge(Fields(None, 1, 1, [5]), Fields(None, 1, 1, [6]), cut.since)
    rows = [(1, 9), (1, 10), (2, 10), (2, 100), (0, 0)]
    assert rule.choose([0] * 5, batch_of(rows)) == [5, 6, 5, 6, 6]
    assert rule.choose([0, 0], Batch([0, 0], [2], batch_of([(2, 99)]).heads)) == [5, 5]
    assert rule.choose([0], batch_of([(1, 10)])) == [6]
    assert rule.choose([0], Batch([0], None, numbers())) == [6]


def test_untracked_groups_need_no_cut():
    table = key_table.moved_uncut(key_table.first_table(TASKS, GROUPS), TASKS, {0: 2})
    assert key_table.tasks_of(table, TASKS)[:2] == [2, 0]
    assert table.extra == []


def test_some_batches_are_counted_and_shares_come_out_right():
    rng = random.Random(3)
    rule = Sampled(Fields(None, TASKS, 64), None, 64)
    plain = Fields(None, TASKS, 64)
    none = Batch([], None, numbers())
    for _ in range(200 * COUNTED_EVERY):
        keys = ["hot" if rng.random() < 0.6 else rng.randrange(1000) for _ in range(10)]
        assert rule.choose(list(keys), none) == plain.choose(list(keys), none)
    counts = rule.counted()
    assert sum(counts.values()) == 200 * 10
    assert 0.55 < counts[group_of("hot", 64)] / 2000 < 0.68
    assert rule.counted() == {}
