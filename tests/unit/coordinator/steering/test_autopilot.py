"""The autopilot: which operators count, what a report becomes, and when workers are told."""

from __future__ import annotations

import pytest

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.coordinator.deployment import program_of
from tailrace.coordinator.steering.autopilot import Autopilot
from tailrace.errors import ConfigError


def autopilot(policy, *, keyed=False):
    flow = tr.Topology("watched")
    stream = flow.source(tr.sources.items(range(3)))
    if not keyed:
        stream = stream.shuffle().map(str, tasks=4, name="work")
    stream.key_by(str).count(tasks=2, name="count").sink(tr.sinks.discard(), tasks=1)
    return Autopilot(program_of(flow, policy, Settings()))


def report(services_us=(500, 500, 500, 500), busy=0.3, machine=0.2, count_us=(1, 90)):
    def row(name, task, service_us):
        return {
            "operators": [name], "task": task, "worker": task // 2, "service_us": service_us,
            "utilisation": busy, "inPerSecond": 400.0,
        }  # fmt: skip

    tasks = [row("work", task, each) for task, each in enumerate(services_us)]
    tasks += [row("count", task, each) for task, each in enumerate(count_us)]
    return {"tasks": tasks, "nodes": {"a": {"busy": machine}, "b": {"busy": 0.1}}}


def watch(pilot, times=12, **what):
    told = [pilot.consider(report(**what), 1.0) for _ in range(times)]
    return [each for each in told if each is not None]


def test_each_technique_changes_its_step_and_the_epoch_is_left_to_the_operation():
    pilot = autopilot(Policy.auto())
    (first,) = watch(pilot)
    assert (first.epoch, first.routing, first.inbox, first.replay) == (0, "shortest_delay", "per_task", "adaptive")
    assert pilot.row()["technique"] == "balancing+timeout"
    (second,) = watch(pilot, services_us=(500, 500, 1500, 1500), machine=0.9)
    assert (second.epoch, second.routing, second.inbox, second.replay) == (0, "shortest_delay", "per_task", "fixed:30s")
    assert pilot.row()["technique"] == "balancing"
    assert "3.0x" in pilot.row()["why"]
    (third,) = watch(pilot, busy=0.8, machine=0.9)
    assert (third.inbox, third.routing) == ("shared", "even")
    assert pilot.row()["switches"] == 3


def test_only_the_steps_that_are_left_to_it_are_switched():
    pilot = autopilot(Policy(replay="auto", routing="load_aware"))
    assert watch(pilot, services_us=(500, 500, 5000, 5000), machine=0.9) == []
    (told,) = watch(pilot)
    assert (told.routing, told.inbox, told.replay) == ("load_aware", "per_task", "adaptive")
    assert pilot.row().keys() == {"technique", "why", "switches", "replay"}


def test_a_busy_machine_gets_no_replays():
    assert watch(autopilot(Policy.auto()), machine=0.8) == []


def test_where_keys_alone_decide_there_is_nothing_to_choose():
    pilot = autopilot(Policy.auto(), keyed=True)
    assert watch(pilot) == []
    assert "nothing to choose" in pilot.row()["why"]


def test_without_auto_nothing_is_said_or_done():
    pilot = autopilot(Policy())
    assert watch(pilot) == []
    assert pilot.row() == {}


def test_what_is_given_to_auto_stands_and_unknown_steps_are_refused():
    policy = Policy.auto(replay="fixed:5s", placement="turbostream")
    assert policy.switched == {"routing", "inbox"}
    assert policy.at_first == Policy(placement="turbostream", replay="fixed:5s")
    with pytest.raises(ConfigError, match="no setting 'rooting'"):
        Policy.auto(rooting="even")


def test_a_user_may_take_the_choice_over_and_give_it_back():
    pilot = autopilot(Policy.auto())
    (told,) = watch(pilot)
    held = pilot.hold({"routing": "load_aware"})
    assert (held.epoch, held.routing, held.replay) == (told.epoch, "load_aware", "fixed:30s")
    assert watch(pilot, services_us=(500, 500, 5000, 5000)) == []
    assert pilot.row()["technique"] == "held"
    again = pilot.hold({})
    assert (again.epoch, again.routing, again.replay) == (told.epoch, "shortest_delay", "adaptive")
    assert pilot.row()["technique"] == "balancing+timeout"


def test_what_was_not_left_to_the_coordinator_cannot_be_switched():
    with pytest.raises(ConfigError, match="found 'inbox'"):
        autopilot(Policy(routing="auto")).check({"inbox": "shared"})
    with pytest.raises(ConfigError, match="must be one of"):
        autopilot(Policy.auto()).check({"routing": "latency"})
