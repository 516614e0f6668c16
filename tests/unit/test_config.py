"""Policies and settings: wrong names and values are named errors before anything starts."""

from __future__ import annotations

import dataclasses
import math

import pytest

from tailrace.config import KNOWN_POLICIES, Policy, Settings, check_workers, from_mapping, policy_of, settings_of
from tailrace.errors import ConfigError


def test_every_policy_field_has_known_names_and_its_default_is_one():
    assert {field.name for field in dataclasses.fields(Policy)} == set(KNOWN_POLICIES)
    assert Policy().tracked


@pytest.mark.parametrize("field", KNOWN_POLICIES)
def test_every_known_policy_is_accepted(field):
    for name in KNOWN_POLICIES[field]:
        assert getattr(Policy(**{field: name}), field) == name


def test_an_unknown_policy_names_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'turbostream'") as caught:
        Policy(placement="turbostrem")
    assert "'turbostrem'" in caught.value.message
    assert caught.value.exit_code == 2


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'flush_us'"):
        from_mapping(Settings, {"flush_ms": 3})
    with pytest.raises(ConfigError, match="Did you mean 'replay'"):
        from_mapping(Policy, {"replays": "off"})
    assert from_mapping(Settings, {"flush_us": 7}).flush_us == 7


@pytest.mark.parametrize(("replay", "seconds"), [("fixed", 30.0), ("fixed:2s", 2.0), ("fixed:0.5", 0.5)])
def test_replay_timeouts(replay, seconds):
    assert Policy(replay=replay).replay_timeout_s == seconds


@pytest.mark.parametrize(
    "replay",
    ["fixed:0s", "fixed:-1s", "fixed:soon", "fixed:nan", "fixed:inf", "off:5s", "blind:0", "blind:2", "blind:some"],
)
def test_replay_timeouts_that_are_none(replay):
    with pytest.raises(ConfigError):
        Policy(replay=replay)


def test_only_replay_takes_an_argument():
    with pytest.raises(ConfigError):
        Policy(placement="round_robin:2")


def test_replay_off_tracks_nothing():
    assert not Policy(replay="off").tracked


@pytest.mark.parametrize("value", [0, -1, "5", None, True, math.nan, math.inf, 1.5])
def test_counts_must_be_positive_whole_numbers(value):
    with pytest.raises(ConfigError, match="max_pending"):
        Settings(max_pending=value)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "1"])
def test_seconds_must_be_positive_numbers(value):
    with pytest.raises(ConfigError, match="lease_s"):
        Settings(lease_s=value)


def test_seconds_may_be_whole_numbers():
    assert Settings(lease_s=3).lease_s == 3


def test_the_transport_is_one_of_a_few():
    with pytest.raises(ConfigError, match="Did you mean 'ring'"):
        Settings(transport="rings")
    for name in ("auto", "ring", "uds", "tcp"):
        assert Settings(transport=name).transport == name


def test_the_waiting_at_the_ring_is_one_of_a_few():
    with pytest.raises(ConfigError, match="ring_waiting must be one of futex, spin_then_futex, busy"):
        Settings(ring_waiting="spin")
    for name in ("futex", "spin_then_futex", "busy"):
        assert Settings(ring_waiting=name).ring_waiting == name


def test_a_policy_may_be_named_or_be_a_mapping():
    assert policy_of(None) == policy_of("auto") == Policy.auto()
    assert policy_of({"routing": "even"}) == Policy.auto(routing="even")
    assert policy_of(Policy(replay="off")) == Policy(replay="off")
    for wrong in ("metis", 3, ["auto"]):
        with pytest.raises(ConfigError, match=r"policy must be a tr\.Policy"):
            policy_of(wrong)
    with pytest.raises(ConfigError, match="no setting 'rooting'"):
        policy_of({"rooting": "even"})


def test_settings_may_be_a_mapping():
    assert settings_of(None) == Settings()
    assert settings_of({"max_pending": 10}) == Settings(max_pending=10)
    with pytest.raises(ConfigError, match="settings must be"):
        settings_of("max_pending=10")
    with pytest.raises(ConfigError, match="max_pendin"):
        settings_of({"max_pendin": 10})


@pytest.mark.parametrize("workers", ["2", 0, -1, True, 2.0, [2]])
def test_workers_are_a_whole_number(workers):
    with pytest.raises(ConfigError, match="workers must be a whole number above 0"):
        check_workers(workers)


def test_workers_may_be_left_out():
    check_workers(None)
    check_workers(3)
