"""Routing rules: where each value goes, alike in every process and for every incarnation."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.heads import batch_of

import tailrace as tr
from tailrace.batch import root_id
from tailrace.config import Settings
from tailrace.routing import router_for
from tailrace.routing.at_random import AtRandom
from tailrace.routing.by_root import ByRoot
from tailrace.routing.fields import CACHED_KEYS_MAX, Fields, stable_hash
from tailrace.routing.fixed import All, Custom, DirectRule, RouteError
from tailrace.routing.shuffle import Shuffle
from tailrace.topology.plan import make_plan

NO_ROOTS = batch_of([], None, [], [], [])


@dataclass(frozen=True)
class Place:
    town: str
    street: str


# -- keys ------------------------------------------------------------------------------------------------------------

KEYS = st.recursive(
    st.one_of(
        st.text(max_size=5), st.integers(), st.floats(allow_nan=False), st.booleans(), st.binary(max_size=4), st.none()
    ),
    lambda inner: st.one_of(st.tuples(inner, inner), st.frozensets(inner, max_size=3)),
    max_leaves=4,
)


@given(KEYS, KEYS)
def test_equal_keys_hash_alike(one, other):
    if one == other:
        assert stable_hash(one) == stable_hash(other)


@given(st.integers(-(2**80), 2**80))
def test_numbers_hash_by_value_not_by_type(number):
    same = [number, Decimal(number), Fraction(number)]
    if float(number) == number:
        same.append(float(number))
    assert len({stable_hash(each) for each in same}) == 1
    assert len({stable_hash((each, "x")) for each in same}) == 1


def test_true_is_one_and_minus_zero_is_zero():
    assert stable_hash(True) == stable_hash(1)
    assert stable_hash(-0.0) == stable_hash(0)
    assert stable_hash(0.5) == stable_hash(Fraction(1, 2))


def test_it_does_not_matter_whether_parts_are_one_object_or_two():
    town, same_town = "Bath"[:], bytes("Bath", "ascii").decode()
    assert town is not same_town
    assert stable_hash(Place(town, town)) == stable_hash(Place(town, same_town))


def test_nan_has_a_place():
    assert stable_hash(float("nan")) == stable_hash(float("nan"))


PROGRAM = """
from tailrace.routing.fields import stable_hash
keys = ["word", b"x", 7, 2.5, None, ("a", 1), frozenset({"a", "b", "c", "d"}), ("x", frozenset({"e", "f"}))]
print([stable_hash(key) for key in keys])
"""


def test_other_processes_hash_alike_whatever_their_hash_seed():
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@given(st.lists(st.text(max_size=3), min_size=1, max_size=30), st.integers(1, 9))
def test_fields_sends_equal_keys_to_one_task(words, tasks):
    one, other = Fields(len, tasks, 64), Fields(len, tasks, 64)
    dests = one.choose(words, NO_ROOTS)
    assert dests == other.choose(words, NO_ROOTS)
    assert len(set(zip(map(len, words), dests, strict=True))) == len(set(map(len, words)))
    assert all(0 <= dest < tasks for dest in dests)


@pytest.mark.parametrize("tasks", [1, 3, 7, 100])
def test_fields_uses_every_task_about_evenly(tasks):
    counts = Counter(Fields(None, tasks, 1024).choose([f"key-{n}" for n in range(20_000)], NO_ROOTS))
    assert set(counts) == set(range(tasks))
    assert max(counts.values()) < 2 * 20_000 / tasks


def test_fields_with_more_tasks_than_groups_uses_them_all():
    assert set(Fields(None, 40, 8).choose(list(range(5000)), NO_ROOTS)) == set(range(40))


def test_fields_remembers_a_bounded_number_of_keys():
    router = Fields(None, 4, 64)
    dests = router.choose(list(range(CACHED_KEYS_MAX + 10)), NO_ROOTS)
    assert len(router._table) <= CACHED_KEYS_MAX
    assert router.choose([0, 1, 2], NO_ROOTS) == dests[:3]


# -- the others ------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(1, 5), st.integers(0, 9))
def test_shuffle_deals_in_turn_over_batches(sizes, tasks, start):
    router = Shuffle(range(tasks), start)
    dealt = [dest for size in sizes for dest in router.choose([None] * size, NO_ROOTS)]
    assert dealt == [(start + n) % tasks for n in range(sum(sizes))]


def test_shuffle_over_some_tasks_only():
    assert list(Shuffle([2, 5], 1).choose([None] * 3, NO_ROOTS)) == [5, 2, 5]


def test_at_random_every_task_gets_about_as_much_and_a_bundle_stays_together():
    router = AtRandom(4, sender=1)
    dests = router.choose([None] * 4000, NO_ROOTS)
    assert dests != AtRandom(4, sender=2).choose([None] * 4000, NO_ROOTS)
    assert all(900 < count < 1100 for count in Counter(dests).values())
    dests = router.choose([None] * 6, batch_of([None] * 6, [3, 3], [1, 2], [1, 1], [1, 2]))
    assert len(set(dests[:3])) == len(set(dests[3:])) == 1


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 500)), min_size=1, max_size=10), st.integers(1, 7))
def test_by_root_keeps_a_roots_values_together(bundles, tasks):
    sizes, roots = [size for size, _ in bundles], [root_id(1, offset) for _, offset in bundles]
    values = list(range(sum(sizes)))
    router = ByRoot(range(tasks))
    dests = router.choose(values, batch_of(values, sizes, roots, roots, roots))
    owners = [root for size, root in zip(sizes, roots, strict=True) for _ in range(size)]
    assert len(set(zip(owners, dests, strict=True))) == len(set(owners))
    singles = router.choose(roots, batch_of(roots, None, roots, roots, roots))
    assert set(zip(roots, singles, strict=True)) == set(zip(owners, dests, strict=True))


def test_by_root_is_about_even():
    roots = [root_id(3, offset) for offset in range(6000)]
    counts = Counter(ByRoot(range(6)).choose(roots, batch_of(roots, None, roots, roots, roots)))
    assert len(counts) == 6
    assert max(counts.values()) < 1.2 * 1000


def test_all_names_everyone():
    assert list(All(3).choose(["a", "b"], NO_ROOTS)) == [(0, 1, 2)] * 2


def test_direct_unwraps():
    values = [tr.direct(1, "a"), tr.direct(0, "b")]
    assert list(DirectRule("a -> b", 2).choose(values, NO_ROOTS)) == [1, 0]
    assert values == ["a", "b"]


@pytest.mark.parametrize("value", ["bare", tr.direct(2, "x"), tr.direct(-1, "x"), tr.direct("0", "x")])
def test_direct_refuses_what_names_no_task(value):
    with pytest.raises(RouteError, match=r"a -> b.*from 0 to 1"):
        DirectRule("a -> b", 2).choose([value], NO_ROOTS)


def test_custom_may_name_one_several_or_none():
    answers = {"one": 2, "several": [0, 1], "none": ()}
    router = Custom("a -> b", lambda value, tasks: answers[value], 3)
    assert list(router.choose(["one", "several", "none"], NO_ROOTS)) == [(2,), (0, 1), ()]


@pytest.mark.parametrize("answer", [3, -1, (0, 3)])
def test_custom_refuses_tasks_that_do_not_exist(answer):
    with pytest.raises(RouteError, match="must give task indexes from 0 to 2"):
        Custom("a -> b", lambda value, tasks: answer, 3).choose(["x"], NO_ROOTS)


# -- which rule an edge gets -----------------------------------------------------------------------------------------


def router_of(draw, *, tracked=True, local=(), tasks=2):
    flow = tr.Topology("routes")
    draw(flow.source(tr.sources.items([1])), tasks)
    plan = make_plan(flow)
    (edge,) = [edge for edge in plan.edges if plan.stages[edge.src_stage].is_source]
    target = plan.stages[edge.dst_stage]
    return router_for(edge, target, sender=0, local=list(local), tracked=tracked, settings=Settings())


GROUPINGS = {
    Shuffle: [
        lambda s, n: s.shuffle().map(len, tasks=n).sink(tr.sinks.discard(), tasks=n + 1),
        lambda s, n: s.to_global().map(len, tasks=n).sink(tr.sinks.discard(), tasks=n + 1),
    ],
    ByRoot: [
        lambda s, n: s.shuffle().sink(tr.sinks.discard(), tasks=n),
        lambda s, n: s.process(lambda v: [v], tasks=n).sink(tr.sinks.discard()),
    ],
    Fields: [lambda s, n: s.key_by(len).count(tasks=n).sink(tr.sinks.discard())],
    All: [lambda s, n: s.broadcast().map(len, tasks=n).sink(tr.sinks.discard(), tasks=n + 1)],
    DirectRule: [lambda s, n: s.direct().map(len, tasks=n).sink(tr.sinks.discard(), tasks=n + 1)],
    Custom: [lambda s, n: s.group_by(lambda v, n: 0).map(len, tasks=n).sink(tr.sinks.discard(), tasks=n + 1)],
}


@pytest.mark.parametrize(("rule", "draw"), [(rule, draw) for rule, draws in GROUPINGS.items() for draw in draws])
def test_the_rule_of_each_grouping(rule, draw):
    assert type(router_of(draw)) is rule


def test_untracked_sinks_are_shuffled_to():
    assert type(router_of(GROUPINGS[ByRoot][0], tracked=False)) is Shuffle


def test_local_prefers_tasks_of_the_same_worker():
    def draw(stream, tasks):
        stream.local_or_shuffle().map(len, tasks=tasks).sink(tr.sinks.discard(), tasks=tasks + 1)

    assert set(router_of(draw, local=[2, 3], tasks=4).choose([None] * 8, NO_ROOTS)) == {2, 3}
    assert set(router_of(draw, local=[], tasks=4).choose([None] * 8, NO_ROOTS)) == {0, 1, 2, 3}
