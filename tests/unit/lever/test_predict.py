"""Quartile classes and Table 1."""

from __future__ import annotations

import pytest

from tailrace.lever.capacity import learn_capacity
from tailrace.lever.observe import BatchRun, NodeRun, TaskEnd, observe
from tailrace.lever.predict import Degradation, NodeClass, classify, degradation, transition

S, M, F = NodeClass.STRAGGLER, NodeClass.MEDIAN, NodeClass.FASTER


def test_quarters_of_eight_nodes():
    classes = classify({str(i): float(i) for i in range(1, 9)})
    assert [classes[str(i)] for i in range(1, 9)] == [F, F, M, M, M, M, S, S]


def test_equal_nodes_share_a_class():
    assert set(classify(dict.fromkeys("abcd", 5.0)).values()) == {M}
    classes = classify({"a": 9.0, "b": 9.0, "c": 5.0, "d": 1.0})
    assert classes == {"a": S, "b": S, "c": M, "d": F}


@pytest.mark.parametrize(("count", "expected"), [(0, {}), (1, {"0": M}), (2, {"0": F, "1": S})])
def test_few_nodes(count, expected):
    assert classify({str(i): float(i) for i in range(count)}) == expected


def test_degradation_ratios():
    finish_ms = {"a": 400.0, "b": 200.0, "c": 200.0, "d": 100.0}
    assert degradation(finish_ms, classify(finish_ms)) == Degradation(2.0, 2.0)


@pytest.mark.parametrize(
    ("initial", "ratio", "final"),
    [
        (S, 0.6, S), (S, 0.5, M), (S, 0.25, M), (S, 0.2, F),
        (M, 2.1, S), (M, 2.0, M), (M, 0.5, M), (M, 0.4, F),
        (F, 4.1, S), (F, 4.0, M), (F, 2.0, M), (F, 1.9, F),
    ],
)  # fmt: skip
def test_table_one_at_ftm_and_mts_of_two(initial, ratio, final):
    assert transition(initial, ratio, Degradation(2.0, 2.0)) is final


def test_capacity_starts_as_throughput_and_learns_from_the_median():
    first = BatchRun(0, (NodeRun("a", 100.0, 50.0), NodeRun("b", 100.0, 100.0), NodeRun("c", 100.0, 200.0)))
    capacity = learn_capacity({}, first)
    assert capacity == {"a": 2.0, "b": 1.0, "c": 0.5}
    assert learn_capacity(capacity, first) == {"a": 4.0, "b": 1.0, "c": 0.25}


def test_capacity_stays_near_the_throughput_where_loads_do_not_follow_it():
    run = BatchRun(0, (NodeRun("a", 100.0, 50.0), NodeRun("b", 100.0, 100.0), NodeRun("c", 100.0, 200.0)))
    capacity = {}
    for _ in range(20):
        capacity = learn_capacity(capacity, run)
    assert capacity == {"a": 4.0, "b": 1.0, "c": 0.25}


def task(executor, finish_ms, rows=10, *, batch=1, stage=5, succeeded=True, outrun=False):
    return TaskEnd(batch, stage, 1000, executor, 1000, finish_ms, rows, succeeded, outrun, "PROCESS_LOCAL")


def test_node_finish_time_is_from_submission_to_the_last_end_over_all_cores():
    (run,) = observe([task("a", 1200), task("a", 1500), task("b", 1300)], {})
    assert run.finish_ms == {"a": 500.0, "b": 300.0}
    assert run.loads == {"a": 20.0, "b": 10.0}
    assert run.makespan_ms == 500.0


def test_loads_are_in_the_units_of_the_plan():
    (run,) = observe([task("a", 1200, 30), task("b", 1500, 10)], {1: {"a": 3000.0, "b": 1000.0}})
    assert run.loads == {"a": 3000.0, "b": 1000.0}


def test_failed_attempts_do_not_count():
    (run,) = observe([task("a", 1200, 30), task("b", 1900, 5, succeeded=False)], {})
    assert run.finish_ms == {"a": 200.0}


def test_an_outrun_executor_counts_with_its_planned_load():
    planned = {1: {"a": 50.0, "b": 50.0}}
    ends = [task("a", 1200, 50), task("a", 1900, 50), task("b", 1800, 50, succeeded=False, outrun=True)]
    (run,) = observe(ends, planned)
    assert run.loads == {"a": 100.0, "b": 50.0}
    assert run.finish_ms == {"a": 900.0, "b": 900.0}


def test_an_executor_that_finished_nothing_took_as_long_as_the_batch():
    """The end of a slow attempt that speculation outran comes long after the next batch was planned."""
    (run,) = observe([task("a", 1200, 50), task("a", 1900, 50)], {1: {"a": 50.0, "b": 50.0}})
    assert run.loads == {"a": 100.0, "b": 50.0}
    assert run.finish_ms == {"a": 900.0, "b": 900.0}


def test_sources_without_row_counts_use_the_planned_loads():
    (run,) = observe([task("a", 1200, 0), task("b", 1500, 0)], {1: {"a": 70.0, "b": 30.0}})
    assert run.loads == {"a": 70.0, "b": 30.0}


def test_batches_come_oldest_first():
    assert [run.batch for run in observe([task("a", 1200, batch=3), task("a", 1200, batch=2)], {})] == [2, 3]
