"""Topologies with an oracle each: what any failure-free run of them gives, for tests that make runs fail."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import tailrace as tr
from tailrace.testing.connectors import TestSource

if TYPE_CHECKING:
    from collections.abc import Callable

LETTERS = "abcdefghijklm"


class Drawn(NamedTuple):
    flow: tr.Topology
    out: Any
    #: Tells what is wrong with the values that came; empty if nothing is.
    faults: Callable[[list[Any]], str]


def sentences(rng: random.Random, count: int) -> list[str]:
    return [" ".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 6))) for _ in range(count)]


class SameInput(random.Random):
    """Draws the same values and partitions for one seed, and task counts by another."""

    def __init__(self, seed: str, tasks: random.Random, tasks_max: int) -> None:
        super().__init__(seed)
        self.tasks = tasks
        self.tasks_max = tasks_max


def _source(flow: tr.Topology, rng: random.Random, values: list[Any]) -> Any:
    partitions = rng.randint(1, 3)
    return flow.source(tr.sources.items(values, partitions=partitions), tasks=_tasks(rng, 2))


def _tasks(rng: random.Random, tasks_max: int = 3) -> int:
    if isinstance(rng, SameInput):
        return rng.tasks.randint(1, rng.tasks_max)
    return rng.randint(1, tasks_max)


def word_count(rng: random.Random, count: int = 300) -> Drawn:
    """Every update of every word, once."""
    flow, out, lines = tr.Topology("words"), tr.sinks.collect(), sentences(rng, count)
    words = _source(flow, rng, lines).flat_map(str.split, tasks=_tasks(rng))
    words.key_by(_itself).count(tasks=_tasks(rng), name="counts").sink(out, tasks=_tasks(rng))
    wanted = Counter(word for line in lines for word in line.split())

    def faults(values: list[Any]) -> str:
        found = defaultdict(list)
        for word, number in values:
            found[word].append(number)
        return _differ({word: list(range(1, total + 1)) for word, total in wanted.items()}, _sorted(found))

    return Drawn(flow, out, faults)


def final_counts(rng: random.Random, count: int = 300) -> Drawn:
    """Each word once, at the end: what ``close()`` gives."""
    flow, out, lines = tr.Topology("final"), tr.sinks.collect(), sentences(rng, count)
    words = _source(flow, rng, lines).flat_map(str.split, tasks=_tasks(rng))
    words.key_by(_itself).count(tasks=_tasks(rng), emit="final", name="counts").sink(out, tasks=_tasks(rng))
    wanted = Counter(word for line in lines for word in line.split())
    return Drawn(flow, out, lambda values: _differ(sorted(wanted.items()), sorted(values)))


def two_levels(rng: random.Random, count: int = 200) -> Drawn:
    """Updates of one keyed operator are counted by another."""
    flow, out, lines = tr.Topology("levels"), tr.sinks.collect(), sentences(rng, count)
    words = _source(flow, rng, lines).flat_map(str.split, tasks=_tasks(rng))
    updates = words.key_by(_itself).count(tasks=_tasks(rng), name="counts")
    halves = updates.key_by(_half).reduce(_longer, tasks=_tasks(rng), name="halves")
    halves.sink(out, tasks=_tasks(rng))
    wanted = Counter(_half((word, 0)) for line in lines for word in line.split())

    def faults(values: list[Any]) -> str:
        return _differ(dict(wanted), dict(Counter(half for half, _ in values)))

    return Drawn(flow, out, faults)


class History(tr.KeyedOperator):
    """The list of all values of a key, in the order in which they came: state that is changed in place."""

    def process(self, key: Any, value: Any, state: Any) -> Any:
        held = state.get()
        if held is None:
            state.set([value])
            return [(key, (value,))]
        held.append(value)
        return [(key, tuple(held))]


def histories(rng: random.Random, count: int = 300) -> Drawn:
    """The result is that of some order of the input, never a mixture."""
    flow, out = tr.Topology("histories"), tr.sinks.collect()
    numbers = list(range(count))
    shuffled = _source(flow, rng, numbers).map(_itself, tasks=_tasks(rng))
    shuffled.key_by(_modulo).process(History(), tasks=_tasks(rng), name="history").sink(out, tasks=_tasks(rng))

    def faults(values: list[Any]) -> str:
        found = defaultdict(list)
        for key, history in values:
            found[key].append(history)
        for key, histories in found.items():
            longest = max(histories, key=len)
            if sorted(longest) != [number for number in numbers if _modulo(number) == key]:
                return f"key {key} ends with {longest}"
            if sorted(histories, key=len) != [longest[: at + 1] for at in range(len(longest))]:
                return f"key {key} has {sorted(histories, key=len)}"
        return _differ({_modulo(number) for number in numbers}, set(found))

    return Drawn(flow, out, faults)


class Kinds(tr.KeyedOperator):
    """A history in states of each kind, beside some that expire: what those tell can only be of the key's past."""

    count = tr.ValueState(int)
    history = tr.ListState(int)
    by_digit = tr.MapState(int, list[int])
    brief = tr.ValueState(int, ttl=0.001)
    recent = tr.ListState(int, ttl=0.001)
    lately = tr.MapState(int, int, ttl=0.001)

    def process(self, key: Any, value: int, state: Any) -> Any:
        wrong = self.wrong_before(value)
        self.count.update((self.count.get() or 0) + 1)
        self.history.append(value)
        self.by_digit.update(value % 10, [*self.by_digit.get(value % 10, []), value])
        if self.by_digit.contains((value + 1) % 10) and value % 3 == 0:
            self.by_digit.remove((value + 1) % 10)
        self.brief.update(value)
        self.recent.append(value)
        self.lately.update(value, value)
        state.set((state.get() or 0) + value)
        digits = tuple(sorted((digit, tuple(values)) for digit, values in self.by_digit.items()))
        return [(key, tuple(self.history.get()), self.count.get(), state.get(), digits, wrong)]

    def wrong_before(self, value: int) -> str:
        """What is expiring is a part of the history: the last of it, in order, and nothing twice."""
        history, recent = self.history.get(), self.recent.get()
        brief, lately = self.brief.get(), self.lately.items()
        if recent != history[len(history) - len(recent) :] or (brief is not None and [brief] != history[-1:]):
            return f"{recent} and {brief} after {history}"
        if value in history or not {key for key, _ in lately} <= set(history) or any(a != b for a, b in lately):
            return f"{lately} and {value} after {history}"
        return ""


def _digits_of(history: tuple[int, ...]) -> Any:
    """What the map of ``Kinds`` is after a history."""
    by_digit: dict[int, list[int]] = {}
    for value in history:
        by_digit.setdefault(value % 10, []).append(value)
        if value % 3 == 0:
            by_digit.pop((value + 1) % 10, None)
    return tuple(sorted((digit, tuple(values)) for digit, values in by_digit.items()))


def kinds(rng: random.Random, count: int = 200) -> Drawn:
    """States that are declared: all of them tell of one and the same order of the input."""
    flow, out = tr.Topology("kinds"), tr.sinks.collect()
    numbers = list(range(count))
    shuffled = _source(flow, rng, numbers).map(_itself, tasks=_tasks(rng))
    shuffled.key_by(_modulo).process(Kinds, tasks=_tasks(rng), name="kinds").sink(out, tasks=_tasks(rng))

    def faults(values: list[Any]) -> str:
        found = defaultdict(list)
        for key, history, number, total, digits, wrong in values:
            found[key].append(history)
            told = (len(history), sum(history), _digits_of(history), "")
            if (number, total, digits, wrong) != told:
                return f"key {key} has {(number, total, digits, wrong)} beside {history}"
        for key, all_histories in found.items():
            longest = max(all_histories, key=len)
            if sorted(all_histories, key=len) != [longest[: at + 1] for at in range(len(longest))]:
                return f"key {key} has {sorted(all_histories, key=len)}"
            if sorted(longest) != [number for number in numbers if _modulo(number) == key]:
                return f"key {key} ends with {longest}"
        return _differ({_modulo(number) for number in numbers}, set(found))

    return Drawn(flow, out, faults)


class Sums(tr.Operator):
    """Adds up what it gets and tells about it by and by: tuples that come of no tuple."""

    tick_every_s = 0.0007

    def __init__(self) -> None:
        self.held = 0

    def process(self, value: int) -> None:
        self.held += value

    @staticmethod
    def rescale(states: list[Any], tasks: int, task_of: Any) -> list[Any]:
        return [{"held": sum(state["held"] for state in states)}, *[{"held": 0}] * (tasks - 1)]

    def tick(self, now_s: float) -> Any:
        return self.close()

    def close(self) -> Any:
        told, self.held = self.held, 0
        return [told] if told else None


def ticks(rng: random.Random, count: int = 300) -> Drawn:
    """What ticks give adds up to what went in, through another operator with state."""
    flow, out = tr.Topology("ticks"), tr.sinks.collect()
    numbers = [rng.randint(1, 9) for _ in range(count)]
    sums = _source(flow, rng, numbers).shuffle().process(Sums(), tasks=_tasks(rng), name="sums")
    again = sums.shuffle().process(Sums(), tasks=_tasks(rng), name="sums_again")
    again.sink(out, tasks=_tasks(rng))
    return Drawn(flow, out, lambda values: _differ(sum(numbers), sum(values)))


class KeyedSums(Sums):
    """As ``Sums``, but tells how often it got each value since it last told: pairs that then go by key."""

    def __init__(self) -> None:
        self.held: Counter[int] = Counter()

    def process(self, value: int) -> None:
        self.held[value] += 1

    @staticmethod
    def rescale(states: list[Any], tasks: int, task_of: Any) -> list[Any]:
        return [{"held": sum((state["held"] for state in states), Counter())}, *[{"held": Counter()}] * (tasks - 1)]

    def close(self) -> Any:
        told, self.held = self.held, Counter()
        return sorted(told.items())


def keyed_ticks(rng: random.Random, count: int = 300) -> Drawn:
    """Tuples that come of no tuple, several of a kind at a time, go by key into state."""
    flow, out = tr.Topology("keyed_ticks"), tr.sinks.collect()
    numbers = [rng.randint(1, 19) for _ in range(count)]
    sums = _source(flow, rng, numbers).shuffle().process(KeyedSums(), tasks=_tasks(rng), name="sums")
    totals = sums.key_by(_first).reduce(_added, tasks=1 + _tasks(rng), name="totals", emit="final")
    totals.sink(out, tasks=_tasks(rng))
    wanted = sorted((number, (number, times)) for number, times in Counter(numbers).items())
    return Drawn(flow, out, lambda values: _differ(wanted, sorted(values)))


class Drips(Sums):
    """Tells what it holds one by one: long after its input is done, something that came of no tuple is under way."""

    tick_every_s = 0.0001

    def tick(self, now_s: float) -> Any:
        if not self.held:
            return None
        self.held -= 1
        return [1]


class Slowly(tr.Operator):
    """Passes on what it gets, after a while."""

    async def process(self, value: int) -> Any:
        await asyncio.sleep(0.004)
        return [value]


def drips(rng: random.Random, count: int = 40, *, ends: bool = True) -> Drawn:
    """As ``ticks``, of a source that gives all at once and, unless it ``ends``, is waited for."""
    flow, out = tr.Topology("drips"), tr.sinks.collect()
    numbers = [rng.randint(1, 9) for _ in range(count)]
    source = flow.source(TestSource(numbers, partitions=2, open_ended=not ends), tasks=_tasks(rng, 2))
    dripped = source.shuffle().process(Drips(), tasks=_tasks(rng), name="drips")
    slowly = dripped.shuffle().process(Slowly(), tasks=_tasks(rng), name="slowly")
    again = slowly.shuffle().process(Sums(), tasks=_tasks(rng), name="sums")
    again.sink(out, tasks=_tasks(rng))
    return Drawn(flow, out, lambda values: _differ(sum(numbers), sum(values)))


def totals(rng: random.Random, count: int = 200) -> Drawn:
    """``tr.split``: parts and a merge; what comes last is the whole."""
    flow, out = tr.Topology("totals"), tr.sinks.collect()
    numbers = [rng.randint(1, 9) for _ in range(count)]
    source = _source(flow, rng, numbers)
    tr.split.total(source, tasks=_tasks(rng)).sink(out, tasks=1)
    return Drawn(flow, out, lambda values: _differ(sum(numbers), max(values, default=0)))


def word_totals(rng: random.Random, count: int = 300) -> Drawn:
    """The largest count of every word, where counts come by and by."""
    flow, out, lines = tr.Topology("word_totals"), tr.sinks.collect(), sentences(rng, count)
    words = _source(flow, rng, lines).flat_map(str.split, tasks=_tasks(rng))
    words.key_by(_itself).count(tasks=1 + _tasks(rng), name="counts").sink(out, tasks=_tasks(rng))
    wanted = Counter(word for line in lines for word in line.split())

    def faults(values: list[Any]) -> str:
        found: dict[str, int] = defaultdict(int)
        for word, number in values:
            found[word] = max(found[word], number)
        return _differ(dict(wanted), dict(found))

    return Drawn(flow, out, faults)


def largest(rng: random.Random, count: int = 200) -> Drawn:
    """``tr.split.top_k`` of updates of keys, which fall as well as rise: what comes last is the whole."""
    flow, out = tr.Topology("largest"), tr.sinks.collect()
    updates = [(rng.choice(LETTERS), rng.randint(1, 99)) for _ in range(count)]
    source = flow.source(tr.sources.items(updates, partitions=1), tasks=1).key_by(_first)
    tr.split.top_k(source, 3, by=_second, tasks=_tasks(rng)).sink(out, tasks=1)
    wanted = sorted(dict(updates).items(), key=_second, reverse=True)[:3]

    def faults(values: list[Any]) -> str:
        for told in values:
            if len(dict(told)) < len(told):
                return f"a key is twice in {told}"
        return _differ([rank for _, rank in wanted], [rank for _, rank in values[-1]])

    return Drawn(flow, out, faults)


class Awaited(tr.Operator):
    """Counts what it gets, several calls at a time: a cut has to wait until they are back."""

    def __init__(self) -> None:
        self.seen = 0

    @staticmethod
    def rescale(states: list[Any], tasks: int, task_of: Any) -> list[Any]:
        return [{"seen": 0}] * tasks

    async def process(self, value: int) -> Any:
        await asyncio.sleep(value % 5 / 1000)
        self.seen += 1
        return [(value, self.seen)]


def awaited(rng: random.Random, count: int = 120) -> Drawn:
    """Calls that are out while others are cut."""
    flow, out = tr.Topology("awaited"), tr.sinks.collect()
    tasks = _tasks(rng)
    numbered = _source(flow, rng, list(range(count))).shuffle().process(Awaited(), tasks=tasks, name="awaited")
    numbered.key_by(_first).count(tasks=_tasks(rng), name="counts").sink(out, tasks=_tasks(rng))
    return Drawn(flow, out, lambda values: _differ([(number, 1) for number in range(count)], sorted(values)))


ALL = [word_count, final_counts, two_levels, histories, kinds, ticks, totals, largest, awaited]


def _first(pair: tuple[int, int]) -> int:
    return pair[0]


def _second(pair: tuple[str, int]) -> int:
    return pair[1]


def _itself(value: Any) -> Any:
    return value


def _added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0], one[1] + other[1]


def _half(update: tuple[str, int]) -> str:
    return "front" if update[0] < "g" else "back"


def _longer(one: Any, other: Any) -> Any:
    return max(one, other)


def _modulo(number: int) -> int:
    return number % 7


def _sorted(found: dict[Any, list[Any]]) -> dict[Any, list[Any]]:
    return {key: sorted(values) for key, values in found.items()}


def _differ(wanted: Any, found: Any) -> str:
    return "" if wanted == found else f"wanted {wanted}\nfound {found}"
