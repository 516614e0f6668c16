"""Spreading load over workers with few moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.placement.spread import spread


def worst(place, loads, speeds):
    used = dict.fromkeys(speeds, 0.0)
    for task, worker in place.items():
        used[worker] += loads[task] / speeds[worker]
    return max(used.values())


def test_what_is_even_stays():
    place = {task: task % 3 for task in range(9)}
    assert spread(place, dict.fromkeys(place, 1.0), [0, 1, 2]) == place


def test_new_workers_get_their_share_with_as_few_moves_as_that_takes():
    place = {task: task % 2 for task in range(8)}
    found = spread(place, dict.fromkeys(place, 1.0), [0, 1, 2, 3])
    assert sorted(found.values()) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sum(found[task] != place[task] for task in place) == 4


def test_a_worker_that_leaves_is_emptied_and_nobody_else_moves():
    place = {task: task % 4 for task in range(8)}
    found = spread(place, dict.fromkeys(place, 1.0), [0, 1])
    assert sorted(found.values()) == [0] * 4 + [1] * 4
    assert all(found[task] == place[task] for task in place if place[task] < 2)


def test_a_slow_worker_is_relieved():
    place = {task: task for task in range(4)}
    found = spread(place, dict.fromkeys(place, 0.5), [0, 1, 2, 3], {2: 0.25})
    assert found[2] != 2
    assert {task: found[task] for task in (0, 1, 3)} == {0: 0, 1: 1, 3: 3}


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.01, 1.0)), min_size=1, max_size=24),
    st.sets(st.integers(0, 5), min_size=1),
    st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=6, max_size=6),
)
def test_every_task_has_a_worker_that_is_there_and_the_worst_is_no_worse(tasks, workers, speeds):
    place = {task: worker for task, (worker, _) in enumerate(tasks)}
    loads = {task: load for task, (_, load) in enumerate(tasks)}
    speed = {worker: speeds[worker] for worker in workers}
    found = spread(place, loads, sorted(workers), speed)
    assert set(found) == set(place)
    assert set(found.values()) <= workers
    if set(place.values()) <= workers:
        assert worst(found, loads, speed) <= worst(place, loads, speed) + 1e-9
        assert found == spread(found, loads, sorted(workers), speed) or worst(found, loads, speed) == pytest.approx(
            worst(spread(found, loads, sorted(workers), speed), loads, speed), rel=0.05
        )
