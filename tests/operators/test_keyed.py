"""Operators with keys and state: count, reduce, aggregate and keyed process."""

from __future__ import annotations

import collections

import tailrace as tr
from tailrace.testing import TestSink, TestSource

WORDS = ("the way of a tuple and the way of a decision " * 20).split()
COUNTS = collections.Counter(WORDS)


def last_of_each(pairs):
    """The last update of every key; each key's updates come in order, from one task."""
    return dict(pairs)


def test_count(run):
    flow, out = tr.Topology("count"), TestSink()
    words = flow.source(TestSource(WORDS, partitions=2), tasks=2)
    words.key_by(lambda w: w).count(tasks=3).sink(out, tasks=3)
    run(flow)
    assert sorted(out.values) == sorted((w, n + 1) for w, total in COUNTS.items() for n in range(total))


def test_reduce(run):
    flow, out = tr.Topology("reduce"), tr.sinks.collect()
    numbers = flow.source(TestSource(range(100)))
    numbers.key_by(lambda v: v % 3).reduce(lambda a, b: a + b, tasks=2).sink(out, tasks=2)
    run(flow)
    assert {key: max(v for k, v in out.values if k == key) for key in range(3)} == {
        key: sum(range(key, 100, 3)) for key in range(3)
    }
    assert len(out.values) == 100


def test_aggregate(run):
    flow, out = tr.Topology("aggregate"), tr.sinks.collect()
    words = flow.source(TestSource(WORDS))
    lengths = words.key_by(len).aggregate(set, lambda seen, word: seen | {word}, sorted, tasks=2)
    lengths.to_global().sink(out)
    run(flow)
    wanted = {}
    for word in WORDS:
        wanted.setdefault(len(word), set()).add(word)
    assert last_of_each(out.values) == {length: sorted(words) for length, words in wanted.items()}


def test_a_keyed_function_sees_the_state_of_its_key(run):
    def pairs(key, value, state):
        if state.value is None:
            state.set(value)
            return None
        first = state.get()
        state.clear()
        return [(key, first, value)]

    flow, out = tr.Topology("pairs"), tr.sinks.collect()
    numbers = flow.source(TestSource(range(40)))
    numbers.key_by(lambda v: v % 4).process(pairs, tasks=2).sink(out)
    run(flow)
    assert sorted(out.values) == sorted((v % 4, v, v + 4) for v in range(40) if v // 4 % 2 == 0)


class Longest(tr.KeyedOperator):
    """Gives the longest word of each first letter, when it ends."""

    def open(self, ctx):
        self.best = {}

    def process(self, key, value, state):
        if state.value is None or len(value) > len(state.value):
            state.value = value
            self.best[key] = value

    def close(self):
        return sorted(self.best.items())


def test_a_keyed_class_may_give_all_at_its_end(run):
    flow, out = tr.Topology("longest"), tr.sinks.collect()
    words = flow.source(TestSource(WORDS))
    words.key_by(lambda w: w[0]).process(Longest, tasks=3).sink(out)
    run(flow)
    wanted = {}
    for word in WORDS:
        wanted[word[0]] = max(wanted.get(word[0], ""), word, key=len)
    assert dict(out.values) == wanted
    assert len(out.values) == len(wanted)


def test_equal_keys_meet_in_one_task(run):
    flow, out = tr.Topology("meet"), TestSink()
    words = flow.source(TestSource(WORDS, partitions=2), tasks=2)
    words.key_by(lambda w: w).map(lambda w: w, tasks=3).sink(out)
    run(flow)
    assert collections.Counter(out.values) == COUNTS
    owners = collections.defaultdict(set)
    for task, values in out.by_task.items():
        for word in values:
            owners[word].add(task)
    assert all(len(tasks) == 1 for tasks in owners.values())
    assert len(set().union(*owners.values())) > 1
