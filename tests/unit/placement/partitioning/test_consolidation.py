"""Algorithms 1 and 2 of text 004 on graphs small enough to follow with a finger."""

from tailrace.placement.partitioning.consolidate import consolidate, consolidate_once
from tailrace.placement.partitioning.growth import best_splits, grow
from tailrace.placement.partitioning.indexed import IndexedGraph, contract
from tailrace.placement.partitioning.partition import bisect, halve_as_printed, halve_refined, partition


def graph_of(weight, edges):
    near = [{} for _ in weight]
    for i, j, rate in edges:
        near[i][j] = near[j][i] = float(rate)
    return IndexedGraph([float(w) for w in weight], near)


# a -5- b -8- c -3- d -7- e
CHAIN = graph_of([1, 1, 1, 1, 1], [(0, 1, 5), (1, 2, 8), (2, 3, 3), (3, 4, 7)])


def test_one_level_takes_the_heaviest_free_neighbour_in_task_order():
    # a takes b; c's heaviest neighbour b is taken, so it takes d; e is left alone.
    parent, parents = consolidate_once(CHAIN)
    assert (parent, parents) == ([0, 0, 1, 1, 2], 3)
    coarse = contract(CHAIN, parent, parents)
    assert coarse.weight == [2.0, 2.0, 1.0]
    assert coarse.near == [{1: 8.0}, {0: 8.0, 2: 7.0}, {1: 7.0}]


def test_levels_go_on_until_the_threshold_and_form_a_binary_tree():
    graphs, parents_of = consolidate(CHAIN, 2)
    assert [len(graph) for graph in graphs] == [5, 3, 2]
    assert parents_of == [[0, 0, 1, 1, 2], [0, 0, 1]]
    assert graphs[-1].near == [{1: 7.0}, {0: 7.0}]


def test_visiting_order_decides_and_a_weight_limit_keeps_parents_small():
    assert consolidate_once(CHAIN, order=[1, 4, 0, 2, 3])[0] == [2, 0, 0, 1, 1]
    assert consolidate_once(CHAIN, weight_max=1.0) == ([0, 1, 2, 3, 4], 5)
    assert len(consolidate(CHAIN, 1, weight_max=1.0)[0]) == 1


def test_growth_is_breadth_first_heaviest_neighbour_first():
    # 0 -1- 1 -5- 2 -1- 3: from 0 the half {0, 1} cuts 5; from 1 the half {1, 2} cuts 2.
    graph = graph_of([1, 1, 1, 1], [(0, 1, 1), (1, 2, 5), (2, 3, 1)])
    assert grow(graph, 0, 0.5, 0.05).cut == 5.0
    assert grow(graph, 1, 0.5, 0.05).side == [1, 0, 0, 1]
    best = best_splits(graph, 0.5, 0.05)[0]
    assert (best.cut, best.off) == (2.0, 0.0)


def test_growth_skips_what_would_worsen_the_balance_and_starts_again_when_it_runs_dry():
    # Target 6 of 18: from 2 the neighbour of 12 would lead further away, so growth goes on at the tasks of 3 and 1.
    graph = graph_of([2, 12, 3, 1], [(0, 1, 4)])
    split = grow(graph, 0, 1 / 3, 0.01)
    assert split.side == [0, 1, 0, 0]
    assert abs(split.off) < 1e-9


def test_the_split_nearest_to_the_target_wins_when_none_is_within_the_factor():
    graph = graph_of([5, 1], [(0, 1, 3)])
    assert best_splits(graph, 0.5, 0.1)[0].off == abs(5 / 6 - 0.5)


def two_cliques():
    edges = [(i, j, 10) for base in (0, 4) for i in range(base, base + 4) for j in range(base, i)]
    return graph_of([1] * 8, [*edges, (3, 4, 1)])


def test_bisection_cuts_between_two_cliques():
    side = bisect(two_cliques(), (0.5, 4.0, 4.0), tasks_max=3)
    assert side in ([0] * 4 + [1] * 4, [1] * 4 + [0] * 4)


def test_nodes_are_given_in_proportion_to_load():
    # Capacities 3 : 1, so the first node takes six of the eight tasks.
    for halve in (halve_as_printed, halve_refined(64)):
        part = partition(graph_of([1] * 8, [(i, i + 1, 1) for i in range(7)]), [6.3, 2.1], [3.0, 1.0], halve)
        assert [part.count(0), part.count(1)] == [6, 2]


def test_three_nodes_split_two_to_one_first():
    chain = graph_of([1] * 9, [(i, i + 1, 1) for i in range(8)])
    part = partition(chain, [3.0] * 3, [1.0] * 3, halve_refined(64))
    assert sorted(part.count(n) for n in range(3)) == [3, 3, 3]
    assert sum(part[i] != part[i + 1] for i in range(8)) == 2
