"""Who stands by for whom: elsewhere where there is an elsewhere, evenly, and no oftener changed than it must be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.properties import examples

from tailrace.placement.standby import WorkerPlace, choose_standbys

places = st.dictionaries(
    st.integers(0, 9),
    st.builds(WorkerPlace, st.sampled_from("ABC"), st.sampled_from("mn"), st.integers(0, 4)),
    min_size=1,
)


@examples(100)
@given(places, st.dictionaries(st.integers(0, 9), st.integers(0, 9)))
def test_every_worker_with_tasks_has_another_one_on_another_executor_if_there_is_one(places, before):
    chosen = choose_standbys(places, before)
    others = len(places) > 1
    assert set(chosen) == {slot for slot, place in places.items() if place.tasks and others}
    for ward, standby in chosen.items():
        assert standby != ward
        elsewhere = {place.executor for place in places.values()} - {places[ward].executor}
        assert not elsewhere or places[standby].executor != places[ward].executor
    assert choose_standbys(places, chosen) == chosen


def test_wards_are_shared_out_evenly():
    chosen = choose_standbys({slot: WorkerPlace(f"e{slot}", "n", 2) for slot in range(4)}, {})
    assert sorted(chosen.values()) == [0, 1, 2, 3]


def test_a_worker_without_tasks_stands_by_first():
    workers = {0: WorkerPlace("a", "n", 2), 1: WorkerPlace("b", "n", 2), 2: WorkerPlace("c", "n", 0)}
    assert choose_standbys(workers, {})[0] == 2


def test_another_node_goes_before_the_same_one_and_a_worker_of_the_executor_comes_last():
    workers = {0: WorkerPlace("a", "n", 1), 1: WorkerPlace("a", "n", 0), 2: WorkerPlace("b", "n", 0)}
    assert choose_standbys(workers, {})[0] == 2
    assert choose_standbys({**workers, 3: WorkerPlace("c", "m", 9)}, {0: 2})[0] == 3
    assert choose_standbys({0: workers[0], 1: workers[1]}, {})[0] == 1
