"""The arms of ``tailrace_bench.tails.ablation``, what they set, and which rows come of what they measured."""

from __future__ import annotations

import pytest

from tailrace.metrics.histogram import Histogram
from tailrace.simulate.scenarios import ablation as simulated
from tailrace_bench.tails import ablation
from tailrace_bench.tails.ablation import ALL, CASES, MECHANISMS, NONE, compared, policy_of
from tailrace_bench.tails.arms import TailMeasurements


def set_by(policy, name):
    return all(getattr(policy, step) == value for step, value in MECHANISMS[name].items())


@pytest.mark.parametrize("name", MECHANISMS)
def test_each_mechanism_is_taken_alone_and_left_out_alone(name):
    others = [each for each in MECHANISMS if each != name]
    alone, without = policy_of(f"only {name}"), policy_of(f"all but {name}")
    assert set_by(alone, name)
    assert not any(set_by(alone, other) for other in others)
    assert not set_by(without, name)
    assert all(set_by(without, other) for other in others)


def test_none_and_all_are_what_they_say():
    assert not any(set_by(policy_of(NONE), name) for name in MECHANISMS)
    assert all(set_by(policy_of(ALL), name) for name in MECHANISMS)
    assert policy_of(NONE).tracked


def test_mechanisms_are_those_of_the_simulated_one():
    assert MECHANISMS.items() <= simulated.MECHANISMS.items()
    assert simulated.MECHANISMS.keys() - MECHANISMS.keys() == {"partial_key"}


def measured(ms):
    histogram = Histogram()
    histogram.add([int(ms * 1e6)] * 100)
    return TailMeasurements(windows=[histogram], extra=[0.02])


def test_arms_stand_against_none_and_those_without_one_against_all_too():
    arms = {NONE: 40, "only replay": 30, ALL: 20, "all but replay": 10}
    found = compared({arm: measured(ms) for arm, ms in arms.items()})
    ratios = {(row["case"], row["baseline"]): row["ratio"] for row in found if row["metric"] == "p99_ms"}
    assert ratios == {
        ("only replay", NONE): pytest.approx(0.75, rel=0.05),
        (ALL, NONE): pytest.approx(0.5, rel=0.05),
        ("all but replay", NONE): pytest.approx(0.25, rel=0.05),
        ("all but replay", ALL): pytest.approx(0.5, rel=0.05),
    }
    assert [row["case"] for row in found if row["metric"] == "extra_load"] == ["only replay", ALL]
    assert all(row["ok"] is None for row in found)


def test_one_case_brings_its_baselines_and_all_are_planned_within_five_minutes():
    assert ablation.planned_s(ablation.QUICK, "only lbf") < ablation.planned_s(ablation.QUICK, None) < 300
    assert len(CASES) == 2 + 2 * len(MECHANISMS)


def test_uplinks_have_room_for_twice_the_words():
    settings = ablation.settings()
    words_per_s = ablation.PER_S * (1 + ablation.WORDS_MAX) / 2 / 5
    assert settings.node_is == "worker"
    assert 2 * words_per_s * 20 < settings.link_bytes_per_s < 2 * words_per_s * 200
