"""Auto: Table 4's conditions, and how slow it is to change its mind."""

from __future__ import annotations

from tailrace.coordinator.steering.auto import AutoPolicy, TaskLoad

SHAREABLE = {"bolt": True, "count": False}


def snapshot(*, services_us=(1000, 1000, 1000, 1000), busy=0.2, per_worker=2, operator="bolt"):
    return [TaskLoad(operator, task // per_worker, service, busy) for task, service in enumerate(services_us)]


def watch(auto, tasks, times, cpu=0.2):
    for _ in range(times):
        auto.observe(tasks, cpu, SHAREABLE)
    return auto.choice.technique


def test_low_load_asks_for_the_timeout_and_for_balancing_where_a_tuple_is_worth_it():
    auto = AutoPolicy()
    assert watch(auto, snapshot(), 3) == "balancing+timeout"
    assert auto.choice.policies == {"inbox": "per_task", "routing": "shortest_delay", "replay": "adaptive"}
    assert "20%" in auto.choice.reason
    assert "1,000 us of work" in auto.choice.reason
    assert watch(auto, snapshot(services_us=(95,) * 4), 20) == "balancing+timeout"  # within the band
    assert watch(auto, snapshot(services_us=(50,) * 4), 20) == "timeout"
    assert auto.choice.policies == {"inbox": "per_task", "routing": "even", "replay": "adaptive"}


def test_where_tasks_hardly_ever_have_a_tuple_there_is_nothing_to_choose_by():
    auto = AutoPolicy()
    assert watch(auto, snapshot(busy=0.06), 20) == "timeout"
    assert watch(auto, snapshot(busy=0.12, operator="count"), 20) == "balancing+timeout"
    assert watch(auto, snapshot(busy=0.095), 20) == "balancing+timeout"  # within the band
    assert watch(auto, snapshot(busy=0.08), 20) == "timeout"
    assert watch(auto, snapshot(services_us=(1000, 1000, 1000, 1500), busy=0.06), 20) == "timeout"
    assert watch(auto, snapshot(services_us=(1000, 1000, 1000, 2100), busy=0.06), 20) == "balancing+timeout"


def test_stalls_are_busy_time_and_do_not_make_tasks_seem_used():
    auto = AutoPolicy()
    for at in range(200):
        auto.observe(snapshot(busy=0.15 if at % 10 > 5 else 0.07), 0.2, SHAREABLE)
    assert (auto.choice.technique, auto.switches) == ("timeout", 1)


def test_the_work_of_a_tuple_is_that_of_the_operators_longest_by_all_its_tuples():
    auto = AutoPolicy()
    tasks = [TaskLoad("bolt", 0, 900.0, 0.2, 1), TaskLoad("bolt", 1, 10.0, 0.2, 99), TaskLoad("b", 0, 60.0, 0.2, 9)]
    assert watch(auto, tasks, 5) == "timeout"
    assert watch(auto, [*tasks, TaskLoad("c", 0, 120.0, 0.2, 9)], 20) == "balancing+timeout"


def test_busy_queues_of_siblings_ask_for_a_shared_one():
    auto = AutoPolicy()
    assert watch(auto, snapshot(busy=0.7), 3, cpu=0.7) == "shared_queue"
    assert auto.choice.policies["inbox"] == "shared"


def test_busy_queues_without_siblings_ask_for_nothing():
    assert watch(AutoPolicy(), snapshot(busy=0.7, per_worker=1), 20, cpu=0.7) == "none"


def test_keyed_operators_share_nothing():
    assert watch(AutoPolicy(), snapshot(busy=0.7, operator="count"), 20, cpu=0.7) == "none"


def test_unequal_tasks_ask_for_balancing_before_all_else_and_for_replays_where_there_is_room():
    for busy, technique in ((0.2, "balancing+timeout"), (0.7, "balancing")):
        auto = AutoPolicy()
        assert watch(auto, snapshot(services_us=(1000, 1000, 1000, 2000), busy=busy), 20, cpu=busy) == technique
        assert "2.0x" in auto.choice.reason


def test_both_together_are_no_reason_to_balance_once_there_is_no_room_for_replays():
    auto = AutoPolicy()
    nearly = snapshot(services_us=(1000, 1000, 1000, 1250), per_worker=1)
    assert watch(auto, nearly, 10) == "balancing+timeout"
    assert watch(auto, nearly, 20, cpu=0.7) == "none"
    assert watch(auto, snapshot(services_us=(1000, 1000, 1000, 1400), per_worker=1), 20, cpu=0.7) == "balancing"
    assert watch(auto, nearly, 20, cpu=0.7) == "balancing"


def test_one_stall_makes_no_slow_task():
    auto = AutoPolicy()
    for at in range(60):
        stalled = [1000.0] * 4
        stalled[at % 4] = 5000.0 if at % 3 == 0 else 1000.0
        auto.observe(snapshot(services_us=stalled), 0.2, SHAREABLE)
    assert "worth choosing" in auto.choice.reason
    assert auto.switches == 1


def test_a_condition_must_hold_for_three_snapshots():
    auto = AutoPolicy()
    for _ in range(10):
        assert watch(auto, snapshot(busy=0.7), 2, cpu=0.7) == "none"
        assert watch(auto, snapshot(busy=0.55), 1, cpu=0.55) == "none"


def test_around_a_threshold_it_does_not_swing():
    auto = AutoPolicy()
    for at in range(200):
        use = 0.58 + (0.03 if at % 8 < 4 else -0.03)
        auto.observe(snapshot(busy=use), use, SHAREABLE)
    assert auto.choice.technique == "shared_queue"
    assert auto.switches == 1


def test_a_choice_stands_for_ten_snapshots_and_then_follows():
    auto = AutoPolicy()
    assert watch(auto, snapshot(), 3) == "balancing+timeout"
    assert watch(auto, snapshot(busy=0.8), 9, cpu=0.8) == "balancing+timeout"
    assert watch(auto, snapshot(busy=0.8), 1, cpu=0.8) == "shared_queue"


def test_nothing_measured_is_no_reason_to_balance():
    assert watch(AutoPolicy(), snapshot(services_us=(None,) * 4), 20) == "timeout"


def test_a_few_tuples_make_no_measurement_and_workers_are_compared_not_tasks():
    """Four tasks a worker, of which any may seem slow for a moment; a measurement of a worker takes all of them in."""
    auto = AutoPolicy()
    for at in range(30):
        tasks = [TaskLoad("bolt", task // 4, 1500.0 if (task + at) % 4 == 0 else 900.0, 0.3, 10) for task in range(8)]
        auto.observe(tasks, 0.2, SHAREABLE)
    assert "CPU 20%" in auto.choice.reason
    assert "worth choosing" in auto.choice.reason


def test_work_too_short_to_choose_for_each_tuple_is_not_balanced():
    auto = AutoPolicy()
    assert watch(auto, snapshot(services_us=(10, 10, 10, 40)), 20) == "timeout"


def test_a_technique_that_may_not_be_used_makes_room_for_the_next():
    auto = AutoPolicy(techniques=frozenset({"timeout"}))
    assert watch(auto, snapshot(services_us=(1000, 1000, 1000, 3000)), 20) == "timeout"
    auto = AutoPolicy(techniques=frozenset({"balancing", "shared_queue"}))
    assert watch(auto, snapshot(), 20) == "none"
    assert watch(auto, snapshot(services_us=(1000, 1000, 1000, 3000)), 20) == "balancing"
    assert watch(AutoPolicy(techniques=frozenset()), snapshot(), 20) == "none"


def test_a_worker_that_has_no_task_any_more_is_forgotten():
    auto = AutoPolicy()
    assert watch(auto, snapshot(services_us=(1000, 1000, 3000, 3000)), 10, cpu=0.7) == "balancing"
    assert watch(auto, snapshot(services_us=(1000, 1000)), 20, cpu=0.7) == "none"
