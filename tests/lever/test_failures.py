"""Whatever goes wrong in the planner or with executors, the query runs on as if Lever were off."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

from tailrace import lever
from tailrace.lever.apply import Lever
from tailrace.lever.planner import Planner
from tailrace.lever.plans import plan_of
from tailrace.lever.plans.base import LoadAssignment
from tailrace.lever.split import Piece

from .cluster import CountedQuery, RunningCounts, executor_pids, kill_one_executor

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def misbehave(request):
    """Each batch fails in another way."""
    size = request.units[0].size
    whole = [Piece("0", tuple((i, 0, unit.size) for i, unit in enumerate(request.units)))]
    ways = [
        lambda: 1 / 0,
        lambda: [Piece("dead", whole[0].ranges)],
        lambda: [Piece("0", whole[0].ranges[1:])],
        lambda: [*whole, Piece("1", ((0, 0, size),))],
        lambda: [Piece("0", ((99, 0, 1), *whole[0].ranges))],
        lambda: [Piece("0", ((0, 0, size + 5), *whole[0].ranges[1:]))],
        list,
        lambda: "pieces",
    ]
    return ways[request.batch % len(ways)]()


def start(spark, decide, *, settle=None, timeout_ms=2000):
    planner = Planner(plan_of("even"))
    made = Lever(spark, planner, decide or planner.decide, settle or planner.settle)
    made.start(spark, timeout_ms)
    return made


def run_misbehaving(spark, checkpoint, batches):
    made = start(spark, misbehave)
    counted = CountedQuery(spark, checkpoint)
    counted.wait_for(batches)
    counted.check()
    failures = made.status(counted.query.id).failures
    made.stop()
    return failures


def test_a_planner_that_errs_costs_no_row(spark, tmp_path):
    failures = run_misbehaving(spark, tmp_path, 9)
    assert failures["the planner failed: ZeroDivisionError: division by zero"] >= 1
    assert failures["the plan names executors that are gone"] >= 1
    assert failures["the plan does not cover the input exactly once"] >= 4


def test_state_that_moves_with_every_batch_or_is_planned_wrongly_keeps_its_counts(spark, tmp_path):
    asked, followed = [], []

    def settle(request):
        """All state to one executor, then to the other; every third batch something that cannot be followed."""
        if asked:
            followed.append(request.homes == asked[-1])
        asked.append([request.executors[request.batch % 2][0]] * len(request.homes))
        wrong = [asked[-1][1:], 1 / 3, ["dead"] * len(request.homes)]
        return wrong[request.batch // 3 % 3] if request.batch % 3 == 2 else asked[-1]

    made = start(spark, None, settle=settle)
    counted = RunningCounts(spark, tmp_path)
    counted.wait_for(10)
    counted.check()
    failures = made.status(counted.query.id).failures
    made.stop()
    assert failures["the plan does not name a home for every partition of state"] >= 1
    assert failures["the plan names executors that are gone"] >= 1
    assert sum(followed) >= 4, "state did not go where it was asked to go"


@pytest.mark.soak
def test_a_planner_that_errs_a_hundred_times_costs_no_row(spark, tmp_path):
    assert sum(run_misbehaving(spark, tmp_path, 120).values()) >= 100


def test_a_hanging_planner_is_not_waited_for(spark, tmp_path):
    released, asked = threading.Event(), []

    def hang(request):
        asked.append(request.batch)
        released.wait(60)
        return []

    made = start(spark, hang, timeout_ms=200)
    counted = CountedQuery(spark, tmp_path)
    try:
        counted.wait_for(6)
        # Six batches went by while the first call was still hanging, and nobody asked again meanwhile.
        assert asked == [0]
        failures = made.status(counted.query.id).failures
    finally:
        released.set()
    counted.check()
    made.stop()
    assert failures["the planner took longer than 200 ms"] == 1
    assert failures["the planner is still busy with an earlier batch"] >= 4


@pytest.mark.soak
def test_a_planner_that_hangs_a_hundred_times_costs_no_row(spark, tmp_path):
    made = start(spark, lambda request: time.sleep(0.2) or [], timeout_ms=50)
    counted = CountedQuery(spark, tmp_path)
    counted.wait_for(120)
    counted.check()
    failures = made.status(counted.query.id).failures
    made.stop()
    assert set(failures) <= {"the planner took longer than 50 ms", "the planner is still busy with an earlier batch"}
    assert sum(failures.values()) >= 100


def run_with_kills(spark, checkpoint, kills, query=CountedQuery):
    enabled = lever.enable(spark, plan_timeout_ms=20_000)
    counted = query(spark, checkpoint)
    counted.wait_for(1)
    killed = []
    for _ in range(kills):
        killed.append(kill_one_executor(spark, killed))
        counted.wait_for(len(counted.values) + 2)
    counted.check()
    return killed, enabled.status(counted.query.id)


@pytest.mark.chaos
def test_a_killed_executor_costs_no_row_and_gets_no_more_load(spark, tmp_path):
    killed, status = run_with_kills(spark, tmp_path, 1)
    assert set(killed).isdisjoint(row.executor for row in status.executors)
    assert status.executors


@pytest.mark.chaos
@pytest.mark.soak
@pytest.mark.parametrize("query", [CountedQuery, RunningCounts])
def test_twenty_killed_executors_cost_no_row(spark, tmp_path, query):
    killed, _ = run_with_kills(spark, tmp_path, 20, query)
    assert len(set(killed)) == 20


class Skewed:
    """Gives nearly everything to one executor."""

    name = "skewed"

    def learn(self, memory, run):
        return memory

    def assign(self, memory, nodes, total):
        loads = {node.executor: 0.1 * total / max(1, len(nodes) - 1) for node in nodes[1:]}
        return LoadAssignment({nodes[0].executor: total - sum(loads.values()), **loads})


def test_a_batch_that_is_run_again_is_split_as_it_was(spark, tmp_path):
    """The first run plans batch 1 and fails before committing it; the second has another plan and must not use it."""
    splits = []

    def keep(batch, number):
        splits.append((number, batch.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()))
        if splits[-1][0] == 1 and len(splits) == 2:
            raise RuntimeError("the sink fails once")

    def run(plan, until):
        lever.enable(spark, plan=plan, plan_timeout_ms=20_000)
        frame = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=100, numPartitions=3).load()
        query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path)).start()
        while query.isActive and len(splits) < until:
            with contextlib.suppress(StreamingQueryException):
                query.awaitTermination(0.05)
        query.stop()
        lever.disable(spark)

    run("even", 99)
    run(Skewed(), 4)
    first, again = (split for number, split in splits if number == 1)
    assert sorted(first) == sorted(again) == [50, 50]
    assert next(sorted(split) for number, split in splits if number == 2) == [10, 90]


def test_a_pinned_task_does_not_wait_longer_than_a_trigger_for_a_busy_executor(spark, tmp_path):
    lever.enable(spark, plan="even", plan_timeout_ms=20_000)
    context = spark.sparkContext
    hog = threading.Thread(target=lambda: _hog(context))
    hog.start()
    try:
        while not context.statusTracker().getActiveJobsIds():
            hog.join(0.05)
        counted = CountedQuery(spark, tmp_path, trigger="1 second")
        counted.wait_for(2)
        assert hog.is_alive(), "the executor was not busy for long enough to show anything"
    finally:
        context.cancelJobGroup("hog")
        hog.join()
    counted.check()


def _hog(context):
    context.setJobGroup("hog", "holds one core", interruptOnCancel=True)
    with contextlib.suppress(Py4JJavaError):  # cancelled, in the end
        context.parallelize([1], 1).foreach(lambda _: time.sleep(120))


def test_executors_are_found(spark):
    assert len(executor_pids(spark)) == 2
