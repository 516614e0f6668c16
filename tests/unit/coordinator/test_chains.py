"""Chains: parts without keys leave, long ones are merged, and nothing is replaced that is not there any more."""

from __future__ import annotations

import pytest

from tailrace.coordinator.chains import Chains
from tailrace.protocol import PartsMerged, PartWritten

TASK = (1, 0)
HERE = {0}


def write(chains, *names, is_base=False, is_empty=False):
    for name in names:
        chains.written(PartWritten(1, name, 1, [(*TASK, is_base, is_empty)], {}, {}))


@pytest.fixture
def chains():
    chains = Chains(3)
    write(chains, "base", is_base=True)
    return chains


def ordered(chains, epoch=4):
    ((slot, tasks),) = chains.long([[], [0]], HERE, epoch).items()
    return chains.order(slot, 1, 1, epoch, tasks)


def answer(chains, order, name="merged", epoch=5):
    chains.merged(0, PartsMerged(order.execution, order.epoch, name), epoch)


def test_a_part_without_keys_is_there_until_the_next(chains):
    write(chains, "a", "b", is_empty=True)
    assert chains.of[TASK] == ["base", "b"]
    write(chains, "c")
    write(chains, "d")
    assert chains.of[TASK] == ["base", "c", "d"]


def test_nothing_is_known_to_be_empty_after_going_back(chains):
    write(chains, "a", is_empty=True)
    chains.go_back({TASK: ["base", "a"]})
    write(chains, "b")
    assert chains.of[TASK] == ["base", "a", "b"]


def test_a_chain_is_merged_once_it_is_too_long_but_for_its_first_and_its_newest(chains):
    write(chains, "a", "b")
    assert not chains.long([[], [0]], HERE, 3)
    write(chains, "c")
    order = ordered(chains)
    assert order.tasks == [(*TASK, ["a", "b"])]
    assert not chains.long([[], [0]], HERE, 4), "one order at a time"
    write(chains, "d")
    answer(chains, order)
    assert chains.of[TASK] == ["base", "merged", "c", "d"]
    assert chains.stand_for([(*TASK, chains.of[TASK])]) == [(*TASK, "merged", ["a", "b"])]
    chains.forget(HERE, {"merged"})
    assert chains.stand_for([(*TASK, chains.of[TASK])])
    write(chains, "base2", is_base=True)
    chains.forget(HERE, set())
    assert not chains.stand_for([(*TASK, ["base", "merged"])])


def test_nothing_is_replaced_after_a_base_a_way_back_or_a_change_of_the_run(chains):
    write(chains, "a", "b", "c")
    order = ordered(chains)
    write(chains, "base2", is_base=True)
    answer(chains, order)
    assert chains.of[TASK] == ["base2"]
    write(chains, "d", "e", "f")
    order = ordered(chains)
    chains.go_back({TASK: ["base2", "d", "e", "f"]})
    answer(chains, order)
    assert chains.of[TASK] == ["base2", "d", "e", "f"], "orders of an execution that was given up are forgotten"
    order = ordered(chains)
    chains.of[TASK] = ["base2", "d", "f", "g"]
    answer(chains, order)
    assert chains.of[TASK] == ["base2", "d", "f", "g"]


def test_what_comes_when_its_epoch_has_begun_may_be_retired_already(chains):
    write(chains, "a", "b", "c")
    order = ordered(chains)
    answer(chains, order, epoch=order.epoch)
    assert chains.of[TASK] == ["base", "a", "b", "c"]
    assert ordered(chains, 4).epoch - 4 > order.epoch - 4, "the next may take longer"


def test_a_worker_that_could_not_merge_is_left_alone_for_a_while(chains):
    write(chains, "a", "b", "c")
    answer(chains, ordered(chains), name="", epoch=5)
    assert chains.of[TASK] == ["base", "a", "b", "c"]
    assert not chains.long([[], [0]], HERE, 7)
    assert chains.long([[], [0]], HERE, 8)


def test_an_order_goes_with_its_worker(chains):
    write(chains, "a", "b", "c")
    order = ordered(chains)
    chains.forget(set(), set())
    answer(chains, order)
    assert chains.of[TASK] == ["base", "a", "b", "c"]
    assert not chains.long([[], [0]], set(), 9)
    assert chains.long([[], [0]], HERE, 9)
