"""Algorithm 2 of text 003 by hand, and that its loop ends on whatever graph."""

from hypothesis import given
from hypothesis import strategies as st
from tests.properties import examples

from tailrace.placement.partitioning.indexed import IndexedGraph, loads_of
from tailrace.placement.partitioning.reassign import Reassignment, reassign

NO_CAP = [float("inf")] * 9


def graph_of(weight, edges):
    near = [{} for _ in weight]
    for i, j, rate in edges:
        near[i][j] = near[j][i] = float(rate)
    return IndexedGraph([float(w) for w in weight], near)


def limits_of(graph, nodes, theta=0.12):
    return [sum(graph.weight) / nodes * (1 + theta)] * nodes


def test_the_task_with_the_most_remote_traffic_goes_first_to_its_partner():
    # Tasks 0, 1, 2 on node 0; 3 on node 1; 4 on node 2. Mean 11/3, threshold 4.107.
    graph = graph_of([3, 3, 3, 1, 1], [(0, 3, 5), (1, 4, 3)])
    part, moves = reassign(graph, [0, 0, 0, 1, 2], limits_of(graph, 3), NO_CAP)
    assert moves == [Reassignment(0, 0, 1), Reassignment(1, 0, 2)]
    assert part == [1, 2, 0, 1, 2]


def test_a_move_never_pushes_its_target_over_the_threshold():
    # Threshold 6.72: the tasks of 4 fit nowhere, only the one of 2 does.
    graph = graph_of([4, 4, 2, 4, 4], [(0, 3, 5), (1, 4, 3), (2, 3, 1)])
    _, moves = reassign(graph, [0, 0, 0, 1, 2], limits_of(graph, 3), NO_CAP)
    assert moves == [Reassignment(2, 0, 1)]


def test_a_task_without_partners_goes_to_the_idlest_node_and_held_tasks_stay():
    graph = graph_of([2, 2, 1], [])
    assert reassign(graph, [0, 0, 1], limits_of(graph, 3, 0.3), NO_CAP)[1] == [Reassignment(0, 0, 2)]
    assert reassign(graph, [0, 0, 1], limits_of(graph, 3, 0.3), NO_CAP, held={0, 1})[1] == []


def test_nothing_moves_within_twelve_per_cent():
    graph = graph_of([28, 25, 22], [(0, 1, 9)])
    assert reassign(graph, [0, 1, 2], limits_of(graph, 3), NO_CAP)[1] == []


@given(data=st.data())
@examples(150)
def test_the_loop_ends_moves_no_task_twice_and_is_at_rest_afterwards(data):
    n = data.draw(st.integers(1, 25))
    nodes = data.draw(st.integers(1, 6))
    weight = data.draw(st.lists(st.integers(0, 20), min_size=n, max_size=n))
    edge = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(1, 9)).filter(lambda e: e[0] != e[1])
    graph = graph_of(weight, data.draw(st.lists(edge, max_size=40)))
    part = data.draw(st.lists(st.integers(0, nodes - 1), min_size=n, max_size=n))
    limits = limits_of(graph, nodes)
    after, moves = reassign(graph, part, limits, NO_CAP)
    assert len({move.task for move in moves}) == len(moves) <= n
    before_loads, loads = loads_of(graph, part, nodes), loads_of(graph, after, nodes)
    for node in range(nodes):
        # Whoever was within the threshold still is; whoever was over has not grown.
        assert loads[node] <= max(limits[node], before_loads[node]) + 1e-9
    # No bouncing: a second call finds the moved tasks content where they are.
    again, more = reassign(graph, after, limits, NO_CAP)
    assert not {move.task for move in more} & {move.task for move in moves}
    assert len(more) <= n
    assert sum(loads_of(graph, again, nodes)) == sum(graph.weight)
