from hypothesis import given
from hypothesis import strategies as st
from tests.properties import examples

from tailrace.placement.partitioning.indexed import IndexedGraph, cut_of, loads_of
from tailrace.placement.partitioning.kway import Room, mend, polish
from tailrace.placement.partitioning.refine import refine

NO_CAP = [float("inf")] * 9


@st.composite
def cases(draw, parts_max):
    n = draw(st.integers(2, 20))
    parts = draw(st.integers(2, parts_max))
    near = [{} for _ in range(n)]
    edge = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(1, 30)).filter(lambda e: e[0] != e[1])
    for i, j, rate in draw(st.lists(edge, max_size=50)):
        near[i][j] = near[j][i] = float(rate)
    weight = [float(w) for w in draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))]
    return IndexedGraph(weight, near), draw(st.lists(st.integers(0, parts - 1), min_size=n, max_size=n)), parts


def outside(load, low, high):
    # Rounded, because two equal excesses may differ in their last bit.
    return round(max(0.0, low - load, load - high), 9)


@given(cases(2))
@examples(100)
def test_refinement_never_loses(case):
    graph, side, _ = case
    half = sum(graph.weight) / 2
    low, high = 0.9 * half, 1.1 * half
    before = outside(loads_of(graph, side, 2)[0], low, high), cut_of(graph, side)
    refine(graph, side, low, high)
    assert (outside(loads_of(graph, side, 2)[0], low, high), cut_of(graph, side)) <= before


def test_refinement_goes_through_a_worse_state_to_a_better_one():
    # Two triangles with one corner of each swapped: every single move unbalances, only the exchange helps.
    near = [{} for _ in range(6)]
    for i, j in [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]:
        near[i][j] = near[j][i] = 1.0
    graph = IndexedGraph([1.0] * 6, near)
    side = [0, 0, 1, 0, 1, 1]
    refine(graph, side, 3.0, 3.0)
    assert cut_of(graph, side) == 1.0


def test_small_loads_are_balanced_under_heavy_traffic():
    # CPU in thousandths of a second beside megabytes per second: neither unit may blur the other.
    near = [{j: 1e8 for j in range(6) if j != i} for i in range(6)]
    graph = IndexedGraph([0.001] * 6, near)
    side = [0, 0, 0, 0, 0, 1]
    refine(graph, side, 0.003, 0.003)
    assert sorted(side) == [0, 0, 0, 1, 1, 1]


@given(cases(5))
@examples(80)
def test_mending_never_raises_the_overload_and_polish_never_the_cut(case):
    graph, part, parts = case
    limits = [1.05 * sum(graph.weight) / parts] * parts

    def overload():
        room = Room(graph, part, limits, NO_CAP)
        return max(room.excess(n) for n in range(parts))

    before = overload()
    mend(graph, part, limits, NO_CAP)
    assert overload() <= before + 1e-9
    mended, cut = overload(), cut_of(graph, part)
    polish(graph, part, limits, NO_CAP, visits_max=100_000)
    assert overload() <= mended + 1e-9
    assert cut_of(graph, part) <= cut + 1e-9 or overload() < mended


def test_mending_empties_nodes_without_slots_and_polish_stops_at_its_budget():
    graph = IndexedGraph([1.0] * 4, [{1: 5.0}, {0: 5.0}, {3: 5.0}, {2: 5.0}])
    part = [0, 0, 0, 0]
    mend(graph, part, [9.0, 9.0], [2.0, 2.0])
    assert sorted(part) == [0, 0, 1, 1]
    part = [0, 1, 0, 1]
    polish(graph, part, [2.0, 2.0], NO_CAP, visits_max=0)
    assert part == [0, 1, 0, 1]
    polish(graph, part, [2.0, 2.0], NO_CAP, visits_max=1000)
    assert cut_of(graph, part) == 0.0
