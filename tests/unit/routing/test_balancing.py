"""Weights and balancing: shares come out exactly, the paper's algorithm step by step, our own one by its goals."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailrace as tr
from tailrace.batch import REPLAY_BITS, Batch, numbers, root_id
from tailrace.config import Settings
from tailrace.errors import ConfigError
from tailrace.routing import router_for
from tailrace.routing.balance import Balance, TaskView
from tailrace.routing.detour import Detour
from tailrace.routing.latency import LatencyBalancer
from tailrace.routing.load_aware import LoadAware
from tailrace.routing.partial_key import PartialKey, pair_of
from tailrace.routing.shortest_delay import RateEstimator, ShortestDelay, levelled
from tailrace.routing.shuffle import Shuffle
from tailrace.routing.stamped import Stamped, check_untracked
from tailrace.routing.weighted import Weighted, places, ring_of
from tailrace.topology.plan import make_plan
from tailrace.topology.split import with_partial_keys

FIRST = 1 << REPLAY_BITS
UNTRACKED = Batch([], None, numbers())


def bundles(sizes, *, inc=FIRST, start=1):
    """Tracked bundles of so many values each."""
    heads = [number for at in range(len(sizes)) for number in (root_id(1, start + at), inc, 1000 + start + at)]
    return Batch([None] * sum(sizes), list(sizes), numbers(heads))


def choose(router, origin):
    return router.choose(list(origin.values), origin)


# -- weights ---------------------------------------------------------------------------------------------------------

SHARES = st.lists(st.floats(0.001, 1.0), min_size=1, max_size=12)


@given(SHARES, st.integers(1, 2000))
def test_places_add_up_and_are_within_one_of_the_share(shares, total):
    found = places(shares, total)
    assert sum(found) == total
    assert all(abs(count - share / sum(shares) * total) < 1 for count, share in zip(found, shares, strict=True))


@given(SHARES, st.integers(0, 20), st.lists(st.integers(0, 300), max_size=6))
def test_a_weighted_rule_depends_on_shares_and_start_alone_and_not_on_the_cut_of_batches(shares, start, cuts):
    one, other = Weighted(shares, start), Weighted(shares, start)
    dealt = [dest for size in cuts for dest in one.choose([None] * size, UNTRACKED)]
    assert dealt == other.choose([None] * sum(cuts), UNTRACKED)


def test_a_weighted_rule_gives_each_task_its_share_evenly_spaced():
    ring = ring_of([0.5, 0.25, 0.25])
    assert Counter(ring) == {0: len(ring) // 2, 1: len(ring) // 4, 2: len(ring) // 4}
    at = [place for place, task in enumerate(ring) if task == 0]
    assert max(b - a for a, b in pairwise(at)) <= 3


def test_no_share_is_no_traffic_and_equal_shares_are_round_robin():
    assert set(Weighted([0.5, 0.0, 0.5]).choose([None] * 500, UNTRACKED)) == {0, 2}
    assert Weighted([0.2] * 5).choose([None] * 7, UNTRACKED) == [0, 1, 2, 3, 4, 0, 1]


@pytest.mark.parametrize("rule", [Weighted([0.5, 0.3, 0.2]), LoadAware(3), ShortestDelay([0.4, 0.3, 0.3], 0, 1)])
def test_tracked_bundles_stay_whole(rule):
    dests = choose(rule, bundles([3, 1, 4]))
    assert len(dests) == 8
    assert len(set(dests[:3])) == 1
    assert len(set(dests[4:])) == 1


# -- the paper's -----------------------------------------------------------------------------------------------------


def views(*latencies_us, rate=100.0):
    return [TaskView(latency, rate if latency else 0.0) for latency in latencies_us]


def test_the_papers_parameters():
    found = LatencyBalancer()
    assert (found.period_s, found.ageing, found.threshold, found.step) == (5.0, 0.5, 1.2, 0.01)


def test_one_step_of_the_papers_algorithm():
    """Four tasks: 400 with 100 and 300 with 200 are both above 1.2, so both pairs move one percent."""
    found = LatencyBalancer().adjust(Balance.even(4), views(100, 400, 200, 300))
    assert found.weights == pytest.approx((0.26, 0.24, 0.26, 0.24))
    assert found.aged == (100, 400, 200, 300)


def test_it_ages_and_stops_at_the_first_pair_that_is_balanced():
    balance = Balance((0.25,) * 4, (100.0, 400.0, 200.0, 210.0))
    found = LatencyBalancer().adjust(balance, views(100, 200, 200, 210))
    assert found.aged == pytest.approx((100, 300, 200, 210))
    assert found.weights == pytest.approx((0.26, 0.24, 0.25, 0.25))


def test_a_task_without_tuples_keeps_its_latency_and_none_falls_below_zero():
    balance = Balance((0.005, 0.995), (500.0, 100.0))
    found = LatencyBalancer().adjust(balance, views(0, 100))
    assert found.aged[0] == 500.0
    assert found.weights == pytest.approx((0.0, 1.0))


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=9), st.integers(1, 60))
def test_weights_always_add_up(latencies, periods):
    for policy in (LatencyBalancer(), RateEstimator()):
        balance = Balance.even(len(latencies))
        for _ in range(periods):
            balance = policy.adjust(balance, views(*latencies))
            assert sum(balance.weights) == pytest.approx(1.0)
            assert min(balance.weights) >= 0


# -- our own ---------------------------------------------------------------------------------------------------------


def test_rates_are_throughput_plus_one_over_latency():
    """An M/M/1 queue of rate 1000 at 600/s has a latency of 2.5 ms, one of rate 500 at 300/s one of 5 ms."""
    found = RateEstimator().adjust(Balance.even(2), [TaskView(2500, 600), TaskView(5000, 300)])
    assert found.aged == pytest.approx((1000, 500))
    assert found.weights == pytest.approx((2 / 3, 1 / 3))


def test_small_differences_are_none():
    assert levelled([100, 110, 90, 50], 1.25) == pytest.approx([100 / 350] * 3 + [50 / 350])


def test_what_is_not_measured_drifts_to_the_mean_so_that_it_is_tried_again():
    balance = Balance((0.9, 0.1), (900.0, 100.0))
    for _ in range(60):
        balance = RateEstimator().adjust(balance, [TaskView(2000, 400), TaskView(0, 0)])
    assert balance.weights == pytest.approx((0.5, 0.5))


def test_a_single_quick_tuple_does_not_make_a_task_quick():
    """One tuple that took 49 us, where its task takes 16 ms, once made that task the quickest of all by far."""
    known = Balance((0.8, 0.2), (250.0, 62.5))
    once = RateEstimator().adjust(known, [TaskView(5000, 190), TaskView(49, 1)])
    assert once.weights[1] < 0.3
    few = RateEstimator().adjust(known, [TaskView(5000, 190), TaskView(49, 3)])
    assert few.aged[1] == pytest.approx(62.5 * (0.7 + 0.3 * 3))


def test_many_tuples_are_believed_whatever_they_show():
    found = RateEstimator().adjust(Balance((0.5, 0.5), (100.0, 100.0)), [TaskView(500, 1000), TaskView(1e6, 9)])
    assert found.aged == pytest.approx((0.7 * 100 + 0.3 * 3000, 0.7 * 100 + 0.3 * 100 / 9))


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(0, 3)), min_size=2, max_size=6))
def test_a_period_of_few_tuples_moves_a_rate_by_little(measured):
    known = Balance.even(len(measured))
    known = RateEstimator().adjust(known, [TaskView(10_000, 100)] * len(measured))
    found = RateEstimator().adjust(known, [TaskView(latency_us, per_s) for latency_us, per_s in measured])
    assert all(0.7 * old <= new <= 1.6 * old for old, new in zip(known.aged, found.aged, strict=True))


def test_it_sends_where_the_tuple_is_done_first():
    rule = ShortestDelay([0.8, 0.2], 0, 1)
    dests = choose(rule, Batch([None] * 10, None, numbers()))
    assert Counter(dests) == {0: 8, 1: 2}
    rule.finished(1, 2)
    assert rule.pending == [8, 0]
    assert choose(rule, Batch([None], None, numbers())) == [1]


@given(st.integers(1, 40), st.integers(1, 60))
def test_with_equal_rates_and_no_credits_it_is_even(tasks, count):
    counts = Counter(choose(ShortestDelay([1 / tasks] * tasks, 3, 4), Batch([None] * count, None, numbers())))
    assert max(counts.values()) - min(counts.get(task, 0) for task in range(tasks)) <= 1


def test_load_aware_takes_the_least_known_load():
    rule = LoadAware(3)
    rule.report([5.0, 0.0, 2.0])
    assert choose(rule, Batch([None] * 4, None, numbers())) == [1, 1, 2, 1]
    rule.finished(1, 3)
    assert choose(rule, Batch([None], None, numbers())) == [1]


# -- replays go around -----------------------------------------------------------------------------------------------


def test_first_incarnations_go_as_the_inner_rule_says():
    rule, plain = Detour(Shuffle(range(3)), 3), Shuffle(range(3))
    for sizes in ([1, 1], [2, 1], [4]):
        assert choose(rule, bundles(sizes)) == choose(plain, bundles(sizes))


def test_a_replay_goes_where_least_is_pending_and_takes_no_turn():
    rule = Detour(Shuffle(range(3)), 3)
    assert choose(rule, bundles([1, 1, 1, 1])) == [0, 1, 2, 0]
    rule.finished(2, 1)
    assert choose(rule, bundles([1], inc=FIRST + 1)) == [2]
    assert choose(rule, bundles([1])) == [1]


def test_among_tasks_with_as_few_a_replay_goes_to_the_one_heard_of_last():
    """At low rates a sender may have nothing pending at a task that stalls; it has not heard of it lately either."""
    rule = Detour(Shuffle(range(4)), 4)
    choose(rule, bundles([1] * 4))
    for task in (0, 3, 1, 2):
        rule.finished(task, 1)
    assert choose(rule, bundles([1], inc=FIRST + 1)) == [2]
    assert choose(rule, bundles([1], inc=FIRST + 1)) == [1]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_a_replay_is_cut_into_the_same_pieces(sizes, pending):
    """Guards know a bundle by its pieces: values together in the first incarnation are together in a replay."""
    rule = Detour(Shuffle(range(4)), 4)
    first = choose(rule, bundles(sizes))
    rule.pending = list(pending)
    again = choose(rule, bundles(sizes, inc=FIRST + 1))
    at = 0
    for size in sizes:
        one, other = first[at : at + size], again[at : at + size]
        assert len(set(zip(one, other, strict=True))) == len(set(one)) == len(set(other))
        at += size


def test_around_shortest_delay_a_replay_goes_to_the_task_heard_of_last_and_counts_there():
    rule = Detour(ShortestDelay([0.25] * 4, 0, 1), 4)
    assert choose(rule, bundles([1] * 4)) == [0, 1, 2, 3]
    for task in (0, 3, 1, 2):
        rule.finished(task, 1)
    assert choose(rule, bundles([1], inc=FIRST + 1)) == [2]
    assert rule.pending == [0, 0, 1, 0]
    assert choose(rule, bundles([1] * 3)) == [0, 1, 3]
    rule.reweigh([0.7, 0.1, 0.1, 0.1])
    assert choose(rule, bundles([1] * 3)) == [0, 0, 0]


# -- two choices per key ---------------------------------------------------------------------------------------------


@given(st.text(max_size=8), st.integers(2, 50))
def test_a_keys_two_tasks_are_two(key, tasks):
    one, other = pair_of(key, tasks)
    assert one != other
    assert 0 <= one < tasks
    assert 0 <= other < tasks


@given(st.lists(st.text(max_size=2), min_size=1, max_size=20), st.integers(1, 9))
def test_two_incarnations_of_a_tuple_meet(words, tasks):
    first, again = bundles([1] * len(words)), bundles([1] * len(words), inc=FIRST + 1)
    one, other = PartialKey(None, tasks), PartialKey(None, tasks)
    assert one.choose(words, first) == other.choose(words, again)
    assert all(dest in pair_of(word, tasks) for word, dest in zip(words, one.choose(words, first), strict=True))


def test_a_frequent_key_is_halved():
    for origin in (bundles([1] * 4000), bundles([4000]), Batch([], None, numbers())):
        counts = Counter(PartialKey(None, 10).choose(["the"] * 4000, origin))
        assert set(counts) == set(pair_of("the", 10))
        assert max(counts.values()) < 2150


def test_keys_change_sides_with_the_stamp():
    times_ns = iter((0, 9, 10, 25))
    rule = Stamped(None, 8, 10, lambda: next(times_ns))
    sides = [rule.choose(["the"], UNTRACKED)[0] for _ in range(4)]
    first, second = pair_of("the", 8)
    assert sides == [second, second, first, second]


def test_stamps_need_streams_without_replay():
    check_untracked(tracked=False)
    with pytest.raises(ConfigError, match="replay='off'"):
        check_untracked(tracked=True)


# -- which rule an edge gets -----------------------------------------------------------------------------------------


def rule_of(routing, *, adaptive=False, draw=None):
    flow = tr.Topology("rules")
    stream = flow.source(tr.sources.items([1]))
    (draw or (lambda s: s.shuffle().map(len, tasks=3).sink(tr.sinks.discard(), tasks=2)))(stream)
    plan = make_plan(with_partial_keys(flow))
    (edge,) = [edge for edge in plan.edges if plan.stages[edge.src_stage].is_source]
    return router_for(
        edge, plan.stages[edge.dst_stage], sender=0, local=[], tracked=True, settings=Settings(),
        routing=routing, adaptive=adaptive,
    )  # fmt: skip


def test_the_rule_of_each_policy():
    assert type(rule_of("even")) is Shuffle
    assert type(rule_of("latency")) is Weighted
    assert type(rule_of("load_aware")) is LoadAware
    assert type(rule_of("shortest_delay")) is ShortestDelay
    assert type(rule_of("shortest_delay", adaptive=True).inner) is ShortestDelay
    assert type(rule_of("latency", adaptive=True).inner) is Weighted
    keyed = lambda s: s.key_by(len).count(tasks=3).sink(tr.sinks.discard(), tasks=2)  # noqa: E731
    assert type(rule_of("partial_key", draw=keyed)) is PartialKey
    assert type(rule_of("even", draw=keyed)) is not PartialKey
