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


class Visits(tr.KeyedOperator):
    """States of each kind, and the one without a name beside them."""

    last = tr.ValueState(int, ttl="10 minutes")
    pages = tr.ListState(str)
    per_page = tr.MapState(str, int)

    def process(self, key, value, state):
        number, page = value
        state.value = (state.value or 0) + 1
        before = self.last.get()
        self.last.update(number)
        self.pages.append(page)
        self.per_page.update(page, self.per_page.get(page, 0) + 1)
        yield key, before, tuple(self.pages.get()), dict(self.per_page.items()), state.value


def test_declared_states_of_a_class(run):
    flow, out = tr.Topology("visits"), tr.sinks.collect()
    visits = flow.source(TestSource([(number, "ab"[number % 2]) for number in range(12)]))
    visits.key_by(lambda visit: visit[0] % 3).process(Visits, tasks=2).sink(out, tasks=2)
    run(flow)
    wanted = []
    for key in range(3):
        numbers = range(key, 12, 3)
        pages = ["ab"[number % 2] for number in numbers]
        wanted += [
            (key, number - 3 if at else None, tuple(pages[: at + 1]), collections.Counter(pages[: at + 1]), at + 1)
            for at, number in enumerate(numbers)
        ]
    assert sorted(out.values, key=repr) == sorted([(*w[:3], dict(w[3]), w[4]) for w in wanted], key=repr)


class Seen(tr.States):
    words = tr.MapState(str, int)


def test_declared_states_of_a_function(run):
    def new_words(key, word, state):
        state.value = (state.value or 0) + 1
        if not state.words.contains(word):
            state.words.update(word, state.value)
            yield key, word, state.words.get(word)

    flow, out = tr.Topology("new words"), tr.sinks.collect()
    words = flow.source(TestSource(WORDS))
    words.key_by(len).process(new_words, state=Seen, tasks=2).sink(out)
    run(flow)
    assert {(length, word) for length, word, _ in out.values} == {(len(word), word) for word in WORDS}
    assert len(out.values) == len(set(WORDS))


class Typed(tr.States):
    number = tr.ValueState(int)


def test_a_value_of_another_type_is_a_dead_letter_like_any_failure(run):
    flow, out, dead = tr.Topology("typed"), tr.sinks.collect(), tr.sinks.collect()
    values = flow.source(TestSource([1, "two", 3]))
    kept = values.key_by(lambda v: 0).process(
        lambda key, value, state: [state.number.update(value)], state=Typed, on_error="dead_letter"
    )
    kept.sink(out)
    kept.dead_letters().sink(dead)
    run(flow)
    assert len(out.values) == 2
    (letter,) = dead.values
    assert letter.value == "two"
    assert "State 'number' of operator" in letter.error
    assert "holds values of type int; found 'two' of type str" in letter.error
