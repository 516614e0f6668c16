"""The simulated side of ``tailrace_bench.tails.truth`` and how both sides are held against each other."""

from __future__ import annotations

import pytest

from tailrace.metrics.histogram import Histogram
from tailrace.simulate.engine import run
from tailrace.simulate.model import Policies
from tailrace_bench.tails.arms import TailMeasurements, TailTimes
from tailrace_bench.tails.truth import SCENARIOS, Costs, compared, model_of, predict

SHORT = TailTimes(repeats=1, warm_s=1.0, window_s=4.0, windows=1)
COSTS = Costs(hop_us=100.0, wait_us=50.0)


def scenario(name):
    return next(each for each in SCENARIOS if each.name == name)


def test_the_model_has_the_scenarios_rate_load_and_slow_workers():
    uneven = scenario("uneven")
    model = model_of(uneven, COSTS)
    assert [node.speed for node in model.nodes] == [0.5, 0.5, 1.0, 1.0, 1.0]
    found = run(model, Policies(), seconds=20.0)
    assert found.completed / 20 == pytest.approx(uneven.per_source_s * 5, rel=0.1)
    # Two of five tasks are used 0.7, the others half of that.
    assert found.stages["bolt1"].use == pytest.approx((2 * 0.7 + 3 * 0.35) / 5, rel=0.1)


def test_costs_are_paid_per_hop_and_per_wait():
    quiet = scenario("stalls")
    free = run(model_of(quiet, Costs(0.0, 0.0)), Policies(), seconds=10.0).ms(0.5)
    hops = run(model_of(quiet, Costs(1000.0, 0.0)), Policies(), seconds=10.0).ms(0.5)
    waits = run(model_of(quiet, Costs(0.0, 1000.0)), Policies(), seconds=10.0).ms(0.5)
    assert hops - free == pytest.approx(4.0, rel=0.2)  # three bolts and the sink
    assert waits - free > 3.0  # three waits, and the queues they lengthen


def measured(latencies_ns):
    histogram = Histogram()
    histogram.add(list(latencies_ns))
    return TailMeasurements(windows=[histogram])


def test_a_figure_is_true_within_a_quarter_above_or_below():
    stalls = scenario("stalls")
    predicted = predict(stalls, COSTS, SHORT)
    near = predicted[0].latencies_ns
    same = measured(near)
    assert all(row["ok"] for row in compared(stalls, same, predicted, SHORT))
    doubled = measured([2 * ns for ns in near])
    rows = {row["metric"]: row for row in compared(stalls, doubled, predicted, SHORT)}
    assert rows["p50_ms"]["ok"] is False
    assert rows["p50_ms"]["ratio"] == pytest.approx(2.0, rel=0.1)
    assert rows["throughput"]["ok"] is True


def test_every_scenario_leaves_its_queues_room():
    for each in SCENARIOS:
        assert each.per_source_s * 5 / each.tasks * each.mean_s * max(each.slowness) < 0.8
