"""The parts of the tail benches that need no machine to be quiet: arrivals, flows and rows."""

from __future__ import annotations

import itertools
import math
from functools import partial

import pytest

from tailrace.clock import FakeClock
from tailrace.config import Policy, Settings
from tailrace.coordinator.deployment import program_of
from tailrace.coordinator.steering.auto import TECHNIQUES
from tailrace.coordinator.steering.autopilot import Autopilot
from tailrace.metrics.histogram import Histogram
from tailrace.testing.chaos import Knobs
from tailrace.topology.plan import make_plan
from tailrace_bench.reporting.rows import P999_SAMPLES_MIN
from tailrace_bench.tails import auto, balance, sharedqueue, timeout
from tailrace_bench.tails.arms import WORKERS, TailMeasurements, tail_rows
from tailrace_bench.tails.erlang import percentiles_ms
from tailrace_bench.tails.flows import Poisson, Service

S = 1_000_000_000


def dues(seed, *, offset=0, per_s=200.0):
    clock = FakeClock(5)
    reader = Poisson(per_s, 2, seed).open("0", offset, clock)
    reader.wait_s()
    found = []
    while clock.now_ns() < 100 * S:
        clock.advance(max(1, int(reader.wait_s() * S) + 1))
        records = reader.read(1000)
        assert list(records.offsets) == list(range(offset + len(found), offset + len(found) + len(records.values)))
        assert all(due_ns <= clock.now_ns() for due_ns in records.due_ns or ())
        found += records.due_ns or ()
    return found


def test_arrivals_are_poisson_at_their_rate_and_the_same_for_a_seed():
    found = dues(1)
    assert found == dues(1, offset=7)
    assert found != dues(2)
    gaps_s = [(after - before) / S for before, after in itertools.pairwise(found)]
    mean_s = sum(gaps_s) / len(gaps_s)
    assert mean_s == pytest.approx(1 / 200, rel=0.05)
    assert sum(gap_s**2 for gap_s in gaps_s) / len(gaps_s) == pytest.approx(2 * mean_s**2, rel=0.1)


@pytest.mark.parametrize(
    ("bench", "case"), [(bench, case) for bench in (balance, timeout, sharedqueue) for case in bench.CASES]
)
def test_every_operator_that_works_is_shuffle_fed_and_has_a_place_of_its_own(bench, case):
    with Knobs() as knobs:
        flow = bench._flow(case, knobs, 1)
        flow.validate()
        plan = make_plan(flow)
    assert all(len(stage.operators) == 1 for stage in plan.stages)
    works = [stage for stage in plan.stages if not stage.is_source and stage.head.kind != "sink"]
    assert all(stage.head.blocking and not stage.guarded for stage in works)
    in_a_row = 1 if case.startswith("micro") else 3
    assert len(works) == (7 if case == "processing" else 6 if case == "pageload" else in_a_row)


@pytest.mark.parametrize("case", auto.CASES)
def test_every_scenario_of_auto_leaves_something_to_choose(case):
    with Knobs() as knobs:
        flow = auto.scenario(case).flow(knobs, 1)
        pilot = Autopilot(program_of(flow, Policy.auto(), Settings()))
    assert pilot.policy.techniques == set(TECHNIQUES)
    assert set(auto.QUICK_CASES) <= set(auto.CASES)


def test_full_runs_of_the_timeout_have_the_samples_that_a_bar_on_p999_needs():
    for name in timeout._PAPER.keys() - timeout._SHARES.keys():
        times = timeout._times(timeout.FULL, name)
        assert timeout._rate(name) * WORKERS * times.window_s * times.windows * times.repeats >= P999_SAMPLES_MIN
        # A case fits into a quarter of an hour, the quick bench into five minutes.
        assert timeout.planned_s(timeout.FULL, name) < 900
    assert timeout.planned_s(timeout.QUICK, None) < 300 > auto.planned_s(auto.QUICK, None)


def test_erlang_is_exact_for_one_queue_and_shorter_for_four_servers():
    alone, together = (percentiles_ms("micro", servers, 70.0, 90.0) for servers in (1, 4))
    assert alone[0.9] == pytest.approx(math.log(10) / 20 * 1000, rel=0.03)
    assert alone[0.99] == pytest.approx(math.log(100) / 20 * 1000, rel=0.05)
    assert all(together[share] < 0.4 * alone[share] for share in alone)


def test_a_filter_keeps_the_same_four_in_five_each_time():
    with Knobs() as knobs:
        service = partial(Service, knobs, 0.0, fixed=True)
        kept = [value for value in range(1000) if service(passes=True)(value)]
        assert kept == [value for value in range(1000) if service(passes=True)(value)]
        assert 750 < len(kept) < 850
        assert service()(3) == 3


def histogram(ms, count):
    found = Histogram()
    found.add([ms * 1_000_000] * count)
    return found


def test_rows_pair_windows_and_ask_for_samples():
    ours = TailMeasurements([histogram(4, 100), histogram(6, 100)])
    base = TailMeasurements([histogram(8, 100), histogram(10, 100)])
    rows = {row["metric"]: row for row in tail_rows("b", ours, base, "even", {"p99_ms": 0.6, "p999_ms": 0.1})}
    assert rows["p99_ms"]["ratio"] == pytest.approx(0.55, rel=0.05)
    assert rows["p99_ms"]["ok"] is True
    assert rows["p999_ms"]["ok"] is None
    assert "20,000 are needed" in rows["p999_ms"]["baseline"]
    many = TailMeasurements([histogram(4, 20_000)])
    assert tail_rows("b", many, many, "even", {"p999_ms": 0.5})[-1]["ok"] is False
