"""Micro-batches on a virtual cluster: by hand, nothing lost under any rival, and Lever's plans against them."""

from __future__ import annotations

import pytest

from tailrace.lever.plans import DampedPlan, LeverPlan
from tailrace.simulate.batches import BatchStage, Cluster
from tailrace.simulate.rivals.base import Rival
from tailrace.simulate.rivals.dolly import Dolly
from tailrace.simulate.rivals.skewtune import SkewTune
from tailrace.simulate.rivals.speculation import Speculation
from tailrace.simulate.rivals.wrangler import Wrangler
from tailrace.simulate.scenarios.lever import RIVALS, SHAPES, burst, play, two_types

TWO = Cluster((1.0, 0.5), cores=2, blocks=4, fetch_part=0.5, launch_ms=10.0)


def test_the_default_by_hand():
    """Four blocks of 100 ms on two cores take two turns: 200 ms, and 400 ms at half the speed."""
    found = BatchStage([400.0, 400.0], TWO).play(Rival())
    assert found.finish_ms == (200.0, 400.0)
    assert found.makespan_ms == 400.0
    assert found.busy_ms == 4 * 100 + 4 * 200
    assert found.local_share == 1.0


def test_a_copy_by_hand():
    """At 200 ms half is done, median 100 ms; at 300 ms the slow runs are late; copies take 10 + 50 + 100 ms."""
    cluster = Cluster((1.0, 0.25), cores=2, blocks=4, fetch_part=0.5, launch_ms=10.0)
    alone = BatchStage([400.0, 400.0], cluster).play(Rival())
    assert alone.makespan_ms == 800.0
    copied = BatchStage([400.0, 400.0], cluster).play(Speculation())
    assert copied.makespan_ms < 800.0
    assert copied.finish_ms[0] > 200.0


@pytest.mark.parametrize("rival", [Rival, Speculation, SkewTune, Dolly, Wrangler])
def test_every_task_is_done_once_and_every_core_is_given_back(rival):
    playing = rival()
    for _ in range(3):
        stage = BatchStage([2800.0] * 6, Cluster((1.0, 1.0, 1.0, 1.0, 0.4, 0.3)))
        found = stage.play(playing)
        playing.after(found)
        assert all(task.won is not None for task in stage.tasks)
        assert stage.free == [4] * 6
        assert not stage.running
        assert found.makespan_ms >= 2800.0 * 6 / 4 / (4 + 0.4 + 0.3)


def test_skewtune_loses_nothing_of_a_task_it_cuts_up():
    stage = BatchStage([4000.0] * 4, Cluster((1.0, 1.0, 1.0, 0.2)))
    before = sum(task.load for task in stage.tasks)
    stage.play(SkewTune())
    assert len(stage.tasks) > 40
    # What the slow node had done of a task before it was cut up is gone from the sum, and no more than that.
    assert 0.8 * before < sum(task.load for task in stage.tasks) <= before


def test_wrangler_swings():
    makespans, rival = [], Wrangler()
    for _ in range(6):
        found = BatchStage([2800.0] * 16, Cluster(two_types(16)(0))).play(rival)
        rival.after(found)
        makespans.append(found.makespan_ms)
    assert max(makespans) > 1.5 * min(makespans)


def mean_ms(arm, **changed):
    options = {"speeds": two_types(16), "batches": 20, "seed": 1} | changed
    return play(arm, SHAPES["wordcount"], **options).figures()["job_ms"]


def test_lever_is_quicker_than_every_rival_on_the_papers_cluster():
    ours = mean_ms(LeverPlan())
    assert all(ours < 0.9 * mean_ms(name) for name in RIVALS)


def test_four_helpers_are_too_few_for_sixteen_stragglers_and_all_nodes_are_enough():
    default = mean_ms("default", speeds=two_types(64))
    assert mean_ms(LeverPlan(), speeds=two_types(64)) > 0.85 * default
    assert mean_ms(DampedPlan(), speeds=two_types(64)) < 0.75 * default


def test_after_a_burst_lever_settles_and_default_spark_falls_behind():
    def latest(arm):
        return play(arm, SHAPES["wordcount"], burst(16, 15, 5), 25, 1).latency_ms[-1]

    assert latest("default") > 10 * latest(LeverPlan())


def test_the_same_seed_gives_the_same_batches():
    assert mean_ms(LeverPlan()) == mean_ms(LeverPlan())
    assert mean_ms(LeverPlan()) != mean_ms(LeverPlan(), seed=2)
